"""Rewards: pure functions of the outcomes of a placement and of the previous one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

import numpy as np

from placement_gym.base import UserError, check_choice


class Outcome(Protocol):
    """The values that a reward depends on: numbers, or (k,) arrays for k placements."""

    @property
    def reference_ms(self) -> Any:
        """Latency of the reference device."""

    @property
    def cost_ms(self) -> Any:
        """Latency of the placement, with a penalty if it is infeasible."""


Reward = Callable[[Outcome, Outcome], Any]


def log_speedup(outcome: Outcome, previous: Outcome) -> Any:
    """Logarithm of the speed-up."""
    return np.log(speedup(outcome, previous))


def speedup(outcome: Outcome, previous: Outcome) -> Any:
    """Reference latency / latency."""
    return outcome.reference_ms / outcome.cost_ms


def inverse_latency(outcome: Outcome, previous: Outcome) -> Any:
    """Inferences per second (HSDAG, section 2.5)."""
    return 1e3 / outcome.cost_ms


def neg_sqrt_latency(outcome: Outcome, previous: Outcome) -> Any:
    """-sqrt(latency in seconds) (Mirhoseini et al. 2017)."""
    return -np.sqrt(outcome.cost_ms / 1e3)


def improvement(outcome: Outcome, previous: Outcome) -> Any:
    """Latency saved since the last placement / reference latency (Placeto, section 3)."""
    return previous.cost_ms / previous.reference_ms - outcome.cost_ms / outcome.reference_ms


REWARDS: dict[str, Reward] = {
    reward.__name__: reward
    for reward in (log_speedup, speedup, inverse_latency, neg_sqrt_latency, improvement)
}


def get_reward(name: str) -> Reward:
    """Return the reward function of a name; an unknown name raises ``UserError``."""
    check_reward(name, REWARDS)
    return REWARDS[name]


def check_reward(name: Any, names: Collection[str]) -> None:
    """Raise ``UserError`` unless a reward is one of these names."""
    if callable(name):
        raise UserError(
            f"reward must be one of {', '.join(names)}, not a function: any other reward is a "
            "gymnasium.Wrapper, see docs/how_to/own_problem.md"
        )
    check_choice("reward", name, names)
