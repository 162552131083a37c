"""Random numbers of the search's kernels."""

from __future__ import annotations

import numpy as np

from placement_gym.base import inlined_part, kernel


@inlined_part
def draw(rng: np.random.Generator, below: int) -> int:
    """Draw a number from 0 to below ``below``."""
    return int(rng.random() * below)


@inlined_part
def draw_length(rng: np.random.Generator, most: int) -> int:
    """Draw a length: a power of two, times a random factor from one to two."""
    exponents = 1
    while 1 << exponents <= most:
        exponents += 1
    length = 1 << draw(rng, exponents)
    return min(length + draw(rng, length), most)


@kernel
def draw_allowance(rng: np.random.Generator) -> float:
    """Draw how much more a move may cost, in temperatures: x passes in (1 + x / 8)^-8 of draws.

    That is nearly exp(-x), by square roots alone, which are the same on every processor.
    """
    return 8 * (1.0 / np.sqrt(np.sqrt(np.sqrt(1.0 - rng.random()))) - 1.0)
