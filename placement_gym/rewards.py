"""Rewards: pure functions of a score and the one before it, of one placement or of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np


class Score(Protocol):
    """What a reward looks at: numbers, or (k,) arrays of k placements."""

    @property
    def latency_ms(self) -> Any:
        """Latency of the placement."""

    @property
    def speedup(self) -> Any:
        """Reference latency over latency."""


Reward = Callable[[Score, Score], Any]


def log_speedup(now: Score, before: Score) -> Any:
    """Logarithm of the speed-up: 0 for the reference, up to noise; equal steps for equal ratios."""
    return np.log(now.speedup)


def speedup(now: Score, before: Score) -> Any:
    """Reference latency over latency."""
    return now.speedup


def inverse_latency(now: Score, before: Score) -> Any:
    """Inferences a second (HSDAG, section 2.5)."""
    return 1e3 / now.latency_ms


def neg_sqrt_latency(now: Score, before: Score) -> Any:
    """-sqrt(latency in seconds) (Mirhoseini et al. 2017)."""
    return -np.sqrt(now.latency_ms / 1e3)


def improvement(now: Score, before: Score) -> Any:
    """Latency saved since the last placement, in reference latencies (Placeto, section 3)."""
    return 1.0 / before.speedup - 1.0 / now.speedup


REWARDS: dict[str, Reward] = {
    reward.__name__: reward
    for reward in (log_speedup, speedup, inverse_latency, neg_sqrt_latency, improvement)
}


def resolve(name: str) -> Reward:
    """The reward of that name.

    Raises:
        ValueError: There is none; the message lists all.
    """
    if name not in REWARDS:
        raise ValueError(f"reward must be one of {sorted(REWARDS)}, not {name!r}")
    return REWARDS[name]
