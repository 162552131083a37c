"""The large-neighbourhood placer as an agent."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.proposals import ProposalSearch
from placement_gym.solvers import neighbourhood
from placement_gym.solvers.proposals import Proposals


class Neighbourhood(ProposalSearch):
    """Frees blocks of units and rebuilds them; see ``solvers.neighbourhood``.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        time_limit_s: As for ``ProposalSearch``.
        settings: Fields of ``solvers.neighbourhood.Settings``.
    """

    name = "neighbourhood"

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        time_limit_s: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(env, seed, time_limit_s=time_limit_s)
        self.settings = neighbourhood.Settings(**settings)

    def propose(self, horizon: int) -> Proposals:
        """Begin the solver's search."""
        return neighbourhood.search(self.problem, self.base.cost_table(), self.rng, self.settings)
