"""What an action space leaves open: devices, and perhaps levels of units and bits of edges."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from placement_gym.problem.decisions import DECISIONS, LEVELS

BITS = 2
"""Values of a bit."""


class ActionParts(NamedTuple):
    """The parts of an action, in their order; see ``placement_gym.problem.decisions.Layout``.

    Attributes:
        units: Entries that are devices, padding included.
        levels: Entries that are levels.
        edges: Entries that are bits.
        devices: Number of devices.
    """

    units: int
    levels: int
    edges: int
    devices: int

    @property
    def counts(self) -> list[int]:
        """Entries of each part."""
        return [self.units, self.levels, self.edges]

    @property
    def decisions(self) -> tuple[str, ...]:
        """Those of ``DECISIONS`` that have entries."""
        return tuple(name for name, count in zip(DECISIONS, self.counts, strict=True) if count > 0)


def read_parts(
    observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> ActionParts | None:
    """The parts of actions that place all units at once; None if they are something else."""
    choices = getattr(action_space, "nvec", np.zeros(0))
    if choices.ndim != 1 or not len(choices):
        return None
    units = len(choices)
    if isinstance(observation_space, spaces.Dict) and "node_mask" in observation_space.spaces:
        (units,) = observation_space["node_mask"].shape or (0,)
    rest = choices[units:]
    levels = units * bool(len(rest) >= units and (rest[:units] == LEVELS).all())
    same = (choices[:units] == choices[0]).all() and (rest[levels:] == BITS).all()
    if not 0 < units <= len(choices) or not same:
        return None
    return ActionParts(units, levels, len(rest) - levels, int(choices[0]))
