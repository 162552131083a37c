"""How numba compiles kernels, and the line that says so where the cache on disk has none yet."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.core import event
from numba.extending import is_jitted, register_jitable

from placement_gym.base.clock import continue_clocks, stop_clocks
from placement_gym.base.kernel_cache import KernelCache
from placement_gym.base.shown_task import is_bar_shown, show_waiting

LOGGER = logging.getLogger(__name__)
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
"""No division is checked, which would be more code."""


def compile_once(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a decorator as numba's ``njit`` is, which keeps compiled functions on disk if it can.

    It looks whether the function's own file has changed, not those of its parts: see CONTRIBUTING.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = njit(**options)(function)
        if is_jitted(compiled):  # numba's NUMBA_DISABLE_JIT leaves functions as they are
            compiled._cache = KernelCache(function)
        return compiled

    return decorate


kernel = compile_once(**OPTIONS)
"""Compiles a function that Python calls."""
part = register_jitable(**OPTIONS)
"""Compiles a part of kernels, which they call; without what Python would call it by."""
inlined_part = register_jitable(**OPTIONS, forceinline=True)
"""Compiles a part of kernels that LLVM puts in place of every call: one that reads a struct and is
reached by every move, since a call would count references to all arrays that it reads."""
signed: Any = np.int64
"""Makes an index of an unsigned or constant number: numba compiles a part again for every type that
it is called with, and takes the sum of a signed and an unsigned number of 64 bits for a float."""
SUBJECTS = {
    "placement_gym.solvers.search": ("the search", "about 20 s"),
    "placement_gym.solvers.beams": ("the bounds", "some seconds"),
    "placement_gym.solvers.pipelines": ("pipelines", "some seconds"),
    "placement_gym.solvers": ("repairs", "about 3 s"),
    "placement_gym.schedules": ("the simulator", "about 5 s"),
}
"""Whose kernels take more than a second to compile, and how long on an idle core."""


class CompilationListener(event.Listener):
    """Says that kernels are compiled: on the bar of this thread, or on standard error without one.

    Clocks stand meanwhile, see ``base.clock``.
    Garbage is not collected meanwhile: the compiler makes many objects, which collections would
    look at again and again, for a tenth of the time.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.collected = False
        self.said: set[str] = set()

    def on_start(self, event: event.Event) -> None:
        """Say it for a kernel, not for each of its parts."""
        stop_clocks()
        if self.depth == 0:
            self.say(event.data["dispatcher"].__module__)
            self.collected = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: event.Event) -> None:
        """Say no longer what is waited for."""
        self.depth -= 1
        if self.depth == 0:
            show_waiting("")
            if self.collected:
                gc.collect(0)  # of the compiler's objects, which would be counted otherwise
                gc.enable()
        continue_clocks()

    def say(self, module: str) -> None:
        """Say it on the bar as long as it takes, in a line of its own once for each subject."""
        name = next((name for name in SUBJECTS if module.startswith(name)), None)
        if name is None:
            return
        subject, duration = SUBJECTS[name]
        text = f"compiling {subject} for this machine, once: {duration}"
        LOGGER.info(text)
        if is_bar_shown():
            show_waiting(text)
        elif name not in self.said:
            from rich.console import Console

            Console(stderr=True).print(text, style="yellow", highlight=False)
        self.said.add(name)


LISTENER = CompilationListener()
event.register("numba:compile", LISTENER)
