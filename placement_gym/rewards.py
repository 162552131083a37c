"""Rewards: pure functions of a measurement and the one before it."""

from __future__ import annotations

import math
from collections.abc import Callable

from placement_gym.backends import Measurement

Reward = Callable[[Measurement, Measurement], float]


def log_speedup(now: Measurement, before: Measurement) -> float:
    """Logarithm of the speed-up: 0 for the reference, up to noise; equal steps for equal ratios."""
    return math.log(now.speedup)


def speedup(now: Measurement, before: Measurement) -> float:
    """Reference latency over latency."""
    return now.speedup


def inverse_latency(now: Measurement, before: Measurement) -> float:
    """Inferences a second (HSDAG, section 2.5)."""
    return 1e3 / now.latency_ms


def neg_sqrt_latency(now: Measurement, before: Measurement) -> float:
    """-sqrt(latency in seconds) (Mirhoseini et al. 2017)."""
    return -math.sqrt(now.latency_ms / 1e3)


def improvement(now: Measurement, before: Measurement) -> float:
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
