"""How the kernels of the search are compiled, and what they draw."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

signed: Any = np.int64
"""Makes an index of an unsigned number: numba takes the sum of both kinds for a float, and compiles
a function again for each type that it is called with."""

OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}
kernel = njit(**OPTIONS, cache=True)
"""Compiles a function that Python calls and that makes no arrays."""
part = njit(**OPTIONS, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Compiles a part of such functions. It is typed once, however many call it, and LLVM puts it in
their place: a call would take longer than what it does, as every array is passed in seven words
(and references to it would be counted, were it not for ``_nrt``)."""


@part
def draw(rng: np.random.Generator, below: int) -> int:
    """Draw a number from 0 to below ``below``."""
    return int(rng.random() * below)


@part
def draw_length(rng: np.random.Generator, most: int) -> int:
    """Draw a length: a power of two, times a random factor from one to two."""
    exponents = 1
    while 1 << exponents <= most:
        exponents += 1
    length = 1 << draw(rng, exponents)
    return min(length + draw(rng, length), most)


@part
def draw_allowance(rng: np.random.Generator) -> float:
    """Draw how much more a move may cost, in temperatures: x passes in (1 + x / 8)^-8 of draws.

    That is nearly exp(-x), by square roots alone, which are the same on every processor.
    """
    return 8 * (1.0 / np.sqrt(np.sqrt(np.sqrt(1.0 - rng.random()))) - 1.0)
