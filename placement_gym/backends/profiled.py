"""A backend whose costs are known by a profile that may be wrong."""

from __future__ import annotations

from placement_gym.backends.protocol import Backend
from placement_gym.backends.wrapper import BackendWrapper
from placement_gym.problem.costs.table import CostTable


class ProfiledBackend(BackendWrapper):
    """Evaluates as ``inner`` does, and tells agents another cost table.

    Args:
        inner: What evaluates.
        profile: The costs that agents know, of the same problem.
    """

    def __init__(self, inner: Backend, profile: CostTable) -> None:
        super().__init__(inner)
        self.profile = profile

    def cost_table(self) -> CostTable:
        """The profile."""
        return self.profile
