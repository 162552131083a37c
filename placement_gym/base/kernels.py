"""Compilation of kernels by numba, their cache on disk, and the message meanwhile."""

from __future__ import annotations

import gc
import hashlib
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numba
import numpy as np
from numba import njit
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps
from numba.extending import is_jitted, register_jitable

from placement_gym.base.clock import clocks_stopped, resume_clocks, stop_clocks
from placement_gym.base.errors import warn_user
from placement_gym.base.files import FileError, write_bytes
from placement_gym.base.shown_task import is_bar_shown, show_waiting

LOGGER = logging.getLogger(__name__)
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
"""Divisions are not checked."""


def compile_once(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a decorator like numba's ``njit`` that keeps compiled functions on disk if possible.

    A change in the file of a part does not compile its kernels again, see CONTRIBUTING.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = njit(**options)(function)
        if is_jitted(compiled):  # else NUMBA_DISABLE_JIT is set
            compiled._cache = KernelCache(function)
        return compiled

    return decorate


kernel = compile_once(**OPTIONS)
"""Decorator of functions that Python calls."""
part = register_jitable(**OPTIONS)
"""Decorator of functions that kernels call."""
inlined_part = register_jitable(**OPTIONS, forceinline=True)
"""Decorator of functions that LLVM inlines: those of every move that read a struct, as a call would
count references to all of its arrays."""
signed: Any = np.int64
"""Converts an unsigned or constant index: numba compiles a part for every type of its arguments,
and the sum of a signed and an unsigned number of 64 bits is a float."""
SUBJECTS = {
    "placement_gym.solvers.search": ("the search", "about 20 s"),
    "placement_gym.solvers.beams": ("the bounds", "some seconds"),
    "placement_gym.solvers.pipelines": ("pipelines", "some seconds"),
    "placement_gym.solvers": ("repairs", "about 3 s"),
    "placement_gym.schedules": ("the simulator", "about 5 s"),
}
"""Modules whose kernels take more than a second to compile -> name, and time on an idle core."""


class CompilationListener(event.Listener):
    """Shows that a kernel is compiled, on this thread's bar or on standard error.

    Meanwhile clocks stop, see ``base.clock``, and so does garbage collection, which would take a
    tenth of the time.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.collected = False
        self.said: set[str] = set()

    def on_start(self, event: event.Event) -> None:
        """Show the message for a kernel, not for those that are compiled within it."""
        stop_clocks()
        if self.depth == 0:
            self.say(event.data["dispatcher"].__module__)
            self.collected = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: event.Event) -> None:
        """Remove the message after the outermost kernel."""
        self.depth -= 1
        if self.depth == 0:
            show_waiting("")
            if self.collected:
                gc.collect(0)  # the compiler's objects would count as new
                gc.enable()
        resume_clocks()

    def say(self, module: str) -> None:
        """Show the message on the bar, or print it once for each subject."""
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


DIGEST_BYTES = hashlib.sha256().digest_size
LOCATORS: list[Any] = CompileResultCacheImpl._locator_classes
USER_WIDE: Any = next(one for one in LOCATORS if one.__name__.endswith("UserWideCacheLocator"))
"""Its name has an underscore in numba 0.60."""


class HomeCacheLocator(USER_WIDE):
    """Cache of the user, if there is a home folder."""

    def ensure_cache_path(self) -> None:
        if not Path(self.get_cache_path()).is_absolute():  # it begins with "~"
            raise FileNotFoundError
        super().ensure_cache_path()


class KernelLocations(CompileResultCacheImpl):
    """Folders that numba tries in turn."""

    _locator_classes = [  # noqa: RUF012  numba's own attribute
        HomeCacheLocator if locator is USER_WIDE else locator for locator in LOCATORS
    ]


class KernelFiles:
    """A file with a checksum for each signature of a function.

    numba's files share an index, which concurrent processes overwrite, and an empty file after a
    power cut ends every later process.
    """

    def __init__(self, stem: Path, source_stamp: object) -> None:
        self.stem = stem
        self.origin = repr((numba.__version__, source_stamp)).encode()

    def find(self, key: object) -> Path:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return self.stem.with_name(f"{self.stem.name}-{digest}.nbc")

    def sign(self, content: bytes) -> bytes:
        return hashlib.sha256(self.origin + content).digest()

    def load(self, key: object) -> Any:
        """Load compiled code; None if it is missing, damaged or of another source."""
        try:
            written = self.find(key).read_bytes()
        except OSError:
            return None
        content = written[DIGEST_BYTES:]
        return pickle.loads(content) if written == self.sign(content) + content else None

    def save(self, key: object, compiled: object) -> None:
        content = dumps(compiled)
        write_bytes(self.find(key), self.sign(content) + content)


class KernelCache(FunctionCache):
    """Compiled signatures of a function; warns once if they cannot be kept."""

    _impl_class = KernelLocations
    has_warned: ClassVar[bool] = False

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            super().__init__(function)
        except RuntimeError:  # none of numba's folders can be written
            self._cache_path = ""
            self.disable()
            return
        stem = Path(self.cache_path, self._impl.filename_base)
        self._cache_file = KernelFiles(stem, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with clocks_stopped():
            return super().load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code if possible."""
        try:
            if not self.cache_path:
                raise FileError("neither the package's folder nor the user's cache can be written")
            with clocks_stopped():
                super().save_overload(sig, data)
        except OSError as error:
            if not KernelCache.has_warned:
                KernelCache.has_warned = True
                warn_user(
                    f"compiled kernels are not kept: {error}. Each process compiles them again; "
                    "the environment variable NUMBA_CACHE_DIR may name another folder"
                )
