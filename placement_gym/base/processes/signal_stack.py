"""The stack on which signal handlers run."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class SignalStack(ctypes.Structure):
    """``stack_t`` of Linux."""

    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def keep_signal_stack() -> Iterator[None]:
    """Restore this thread's stack of signal handlers after a block that may change it.

    On processors with AMX, OpenVINO's CPU plugin takes its own stack when it is loaded, and
    the one before when it is unloaded. Where two plugins are not unloaded in the reverse order of
    their loading, the thread is left with a stack that has been freed, and Ctrl-C crashes the
    process. A plugin that finds another stack than its own in the end leaves it alone.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    stack, sigaltstack = SignalStack(), ctypes.CDLL(None).sigaltstack
    sigaltstack(None, ctypes.byref(stack))
    try:
        yield
    finally:
        sigaltstack(ctypes.byref(stack), None)
