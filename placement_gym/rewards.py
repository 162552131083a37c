"""Rewards: pure functions of an outcome and the one before it, of one placement or of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from placement_gym.errors import UserError


class Outcome(Protocol):
    """What a reward depends on: numbers, or (k,) arrays of k placements."""

    @property
    def latency_ms(self) -> Any:
        """Latency of the placement."""

    @property
    def speedup(self) -> Any:
        """Reference latency over latency."""


Reward = Callable[[Outcome, Outcome], Any]


def log_speedup(now: Outcome, before: Outcome) -> Any:
    """Logarithm of the speed-up: 0 for the reference, up to noise; equal steps for equal ratios."""
    return np.log(now.speedup)


def speedup(now: Outcome, before: Outcome) -> Any:
    """Reference latency over latency."""
    return now.speedup


def inverse_latency(now: Outcome, before: Outcome) -> Any:
    """Inferences a second (HSDAG, section 2.5)."""
    return 1e3 / now.latency_ms


def neg_sqrt_latency(now: Outcome, before: Outcome) -> Any:
    """-sqrt(latency in seconds) (Mirhoseini et al. 2017)."""
    return -np.sqrt(now.latency_ms / 1e3)


def improvement(now: Outcome, before: Outcome) -> Any:
    """Latency saved since the last placement, in reference latencies (Placeto, section 3)."""
    return 1.0 / before.speedup - 1.0 / now.speedup


REWARDS: dict[str, Reward] = {
    reward.__name__: reward
    for reward in (log_speedup, speedup, inverse_latency, neg_sqrt_latency, improvement)
}


def get_reward(name: str) -> Reward:
    """The reward of that name.

    Raises:
        ValueError: There is none; the message lists all.
    """
    if name not in REWARDS:
        raise UserError(f"reward must be one of {sorted(REWARDS)}, not {name!r}")
    return REWARDS[name]
