"""The best placements that an agent has evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from placement_gym.base import IntArray, UserError
from placement_gym.problem import Placement, Problem


@dataclass(frozen=True, eq=False)
class Best:
    """The fastest feasible placement that was evaluated. Saved models name this class.

    Attributes:
        row: (width,) decisions, as in an action.
        speedup: Relative to the reference device.
        latency_ms: Of one inference.
        problem: The problem whose units are placed.
        view: View of the operators, ``"folded"`` or ``"raw"``.
        source: Source of the latency, see ``callbacks.identify_problems``.
    """

    row: IntArray
    speedup: float
    latency_ms: float
    problem: Problem
    view: str = "folded"
    source: str = ""

    @property
    def placement(self) -> Placement:
        """The placement, to save or to compile with."""
        return Placement.from_assignment(self.problem, self.row[: self.problem.n_units], self.view)


class BestPlacements(dict[int, Best]):
    """The best placement of each graph, by ``graph_id``. Saved models name this class.

    With a single graph, it also has the attributes of that graph's ``Best``::

        model.best.placement.save("placement.json")
    """

    @property
    def only(self) -> Best:
        """The best placement of the single graph; a ``UserError`` without one, or with several."""
        if len(self) != 1:
            graphs = ", ".join(f"best[{graph}]" for graph in self)
            raise UserError(
                f"there is a best placement of each graph: use {graphs}"
                if self
                else "no feasible placement has been evaluated: call learn for more steps, or "
                "give devices more memory if none fits"
            )
        return next(iter(self.values()))

    @property
    def placement(self) -> Placement:
        return self.only.placement

    @property
    def speedup(self) -> float:
        return self.only.speedup

    @property
    def latency_ms(self) -> float:
        return self.only.latency_ms
