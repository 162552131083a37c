"""Moves of a policy's groups: changes of the best placement, instead of placements from nothing."""

from __future__ import annotations

import numpy as np

from agents.search.moves import Moves
from placement_gym.arrays import FloatArray, IntArray
from placement_gym.env import DevicePlacementEnv

MOST_GROUPS = 3
"""Maximum number of groups that one move changes."""
LEAST = 0.05
"""Weight of a group of whose device the policy is certain, and of a device that it rules out."""


class GroupMoves(Moves):
    """Moves groups to devices that a policy prefers; see ``Moves`` for what is proposed of them.

    Groups of whose device the policy is unsure are moved more often than others.

    Args:
        env: The environment; nothing is evaluated.
    """

    leader: IntArray
    probability: FloatArray

    def __init__(self, env: DevicePlacementEnv) -> None:
        super().__init__(env, np.random.default_rng(0))
        self.best = np.zeros(0, dtype=np.int64)

    def follow(self, action: IntArray) -> None:
        """Start moves from a padded placement."""
        found = action[: self.n_units].astype(np.int64)[None]
        self.best = (self.env.repair_placements(found) if self.env.repair else found)[0]

    def move(self, leader: IntArray, probability: FloatArray, rng: np.random.Generator) -> IntArray:
        """Move groups of the best placement.

        Args:
            leader: (k, n_units) unit that each unit follows.
            probability: (k, n_units, D) of a policy.
            rng: Source of all random numbers.

        Returns:
            (k, n_units) placements.
        """
        self.leader, self.probability, self.rng = leader, probability, rng
        return self.propose(self.best, len(leader))

    def change(self, assignment: IntArray, k: int) -> IntArray:
        """(k, n_units) copies of a placement, each changed in groups of a row of ``leader``."""
        row = np.repeat(np.arange(len(self.leader)), k // len(self.leader))
        leader, probability = self.leader[row], self.probability[row] + LEAST
        probability[:, ~self.env.problem.supported] = 0.0
        probability[:, np.arange(self.n_units), assignment] = 0.0
        doubt = probability.sum(axis=2) * (leader == np.arange(self.n_units))
        many = self.rng.integers(1, MOST_GROUPS + 1, size=k)
        rank = np.argsort(np.argsort(-self.draw_keys(doubt), axis=1), axis=1)
        moved = (rank < many[:, None]) & (doubt > 0.0)
        device = self.draw_keys(probability).argmax(axis=2)
        changed: IntArray = np.where(
            np.take_along_axis(moved, leader, axis=1),
            np.take_along_axis(device, leader, axis=1),
            assignment,
        )
        if self.env.repair:
            return self.env.repair_placements(changed, keep=changed != assignment)
        return self.env.problem.where_supported(changed)

    def draw_keys(self, weight: FloatArray) -> FloatArray:
        """Random keys of which those of large weights tend to be the largest (Gumbel)."""
        with np.errstate(divide="ignore"):
            return np.log(weight) + self.rng.gumbel(size=weight.shape)
