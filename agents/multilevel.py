"""The multilevel placer as an agent."""

from __future__ import annotations

from agents.proposals import ProposalSearch
from placement_gym.solvers.levels import multilevel
from placement_gym.solvers.proposals import Proposals


class Multilevel(ProposalSearch):
    """Coarsens, places and refines; see ``solvers.levels.multilevel``.

    Arguments are those of ``ProposalSearch``.
    """

    name = "multilevel"

    def propose(self, horizon: int) -> Proposals:
        """Begin the solver's search."""
        return multilevel.search(self.problem, self.base.cost_table(), self.rng, horizon)
