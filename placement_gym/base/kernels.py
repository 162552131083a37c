"""How kernels are compiled, and that a progress bar says so where the cache has none."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from placement_gym.base.progress import show_waiting

Function = TypeVar("Function", bound=Callable[..., Any])
LOGGER = logging.getLogger(__name__)
signed: Any = np.int64
"""Makes an index of an unsigned or constant number: numba takes the sum of signed and unsigned ones
for a float, and compiles a function again for each type, and each constant, that it is called with.
"""
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
HIDDEN: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""No code for calls from Python or C, which takes as long to compile as a small part."""
PATIENCE_S = 1.5
"""CPU time for which Python runs a lazy kernel before it is compiled: about as long as that takes,
so that no use takes more than twice as long as with the better of the two."""
maker = njit(nogil=True, **HIDDEN)
"""Compiles a part of kernels that makes arrays, and is called."""


class PartLibrary(JITCodeLibrary):
    """The code of a part, which is optimised and becomes machine code in the kernels that use it.

    numba would do both for every part as well, and Python never calls one.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """There is no machine code."""
        return 0

    @property
    def codegen(self) -> PartLibrary:
        """Itself, as numba uses it only to call ``set_env``."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Parts make no Python objects, for which numba keeps an environment."""


class PartCompiler(Compiler):
    """Compiles to a ``PartLibrary``."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, PartLibrary(target.codegen(), "part"), *rest)


def part(function: Function) -> Function:
    """Compile a part of kernels that makes no arrays; in Python it stays the function that it is.

    It is typed once, however many call it, and LLVM puts it in their place, as a call would take
    longer than what it does.
    """
    return compile_part(function, forceinline=True)


def long_part(function: Function) -> Function:
    """Compile a part that takes longer than a call: LLVM need not optimise it at each of them."""
    return compile_part(function, forceinline=False)


def compile_part(function: Function, forceinline: bool) -> Function:
    options = OPTIONS | HIDDEN | {"pipeline_class": PartCompiler, "forceinline": forceinline}
    compiled = njit(**options)(function)
    vars(function).update(compiled=compiled, _numba_type_=compiled._numba_type_)
    return function


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls and that makes no arrays.

    It is kept on disk as long as no file of its folder changes: numba itself looks at the
    function's own file alone, and would keep a kernel whose parts have changed.
    """
    compiled = njit(**OPTIONS, cache=True, no_cfunc_wrapper=True)(function)
    index = getattr(compiled._cache, "_cache_file", None)
    if index is not None:
        folder = Path(function.__code__.co_filename).parent
        changed = [file.stat().st_mtime for file in sorted(folder.glob("*.py"))]
        index._source_stamp = index._source_stamp, changed
    return compiled


def lazy(compiled: Any) -> Any:
    """Compile a kernel only where it is called often; each call must be short.

    It takes seconds to compile, and milliseconds in Python for one placement. So where the cache
    on disk has no kernel yet, Python runs the function until that has taken ``PATIENCE_S`` in all.
    Results must be the same bitwise: numbers of few bits are made ``signed`` before sums and
    shifts, because NumPy keeps their type, and numba does not.
    """
    compile_for, spent_s = compiled._compile_for_args, 0.0

    def interpret(*args: Any) -> Any:
        nonlocal spent_s
        began = thread_time()
        result = compiled.py_func(*args)
        spent_s += thread_time() - began
        return result

    def choose(*args: Any) -> Any:
        """Choose what runs with arguments of types that numba has not loaded a kernel for."""
        wait = spent_s < PATIENCE_S and not compiled._cache._cache_file._load_index()
        return interpret if wait else compile_for(*args)

    compiled._compile_for_args = choose
    return compiled


class CompilationListener(event.Listener):
    """Says that kernels are compiled: the bar of this thread, if there is one, and the log.

    Garbage is not collected meanwhile: the compiler makes many objects, which collections would
    look at again and again, for a tenth of the time.
    """

    depth = 0
    collected = False
    """Whether garbage was collected before, and will be again."""

    def on_start(self, event: event.Event) -> None:
        """Say it for a kernel, not for each of its parts."""
        if self.depth == 0 and event.data["dispatcher"].__module__.startswith("placement_gym."):
            show_waiting("compiling, once on this machine")
            LOGGER.info("compiling %s, once on this machine", event.data["dispatcher"].__name__)
            self.collected = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: event.Event) -> None:
        """Say no longer what is waited for."""
        self.depth -= 1
        if self.depth == 0:
            show_waiting("")
            if self.collected:
                gc.enable()
            self.collected = False


event.register("numba:compile", CompilationListener())
