"""The simulated backend: deterministic costs from a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from placement_gym.backends import Measurement
from placement_gym.costs import CostTable
from placement_gym.graph.operators import IntArray
from placement_gym.graph.submodels import acyclic_submodels
from placement_gym.problem import Problem


class SimulatedBackend:
    """Scores placements with a ``CostTable`` under HETERO's serial semantics.

    Args:
        problem: Units and devices.
        costs: Their times, of the same units and devices.
    """

    def __init__(self, problem: Problem, costs: CostTable) -> None:
        self.problem = problem
        self.costs = costs
        self.reference_ms = costs.serial_ms(problem, problem.single(problem.reference_device))

    def evaluate(self, assignment: IntArray) -> Measurement:
        """Exact and repeatable; see ``Backend.evaluate``."""
        error = self.problem.infeasibility(assignment)
        if error:
            return Measurement.failed(error, self.reference_ms)
        return self.score(assignment)

    def score(self, assignment: IntArray) -> Measurement:
        """As ``evaluate``, memory limits ignored."""
        latency_ms = self.costs.serial_ms(self.problem, assignment)
        units = self.problem.units
        n = int(acyclic_submodels(units.graph, assignment[units.of_operator]).max()) + 1
        return Measurement(latency_ms, self.reference_ms, latency_ms, 0.0, n, n)

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """The same answers once more, against the first; see ``Backend.remeasure``."""
        scores = [self.score(assignment) for assignment in assignments]
        return [replace(score, reference_ms=scores[0].latency_ms) for score in scores]

    def own_choice(self, plugin: str) -> IntArray:
        """Not available; see ``Backend.own_choice``."""
        raise NotImplementedError(f"{plugin} is OpenVINO's choice; only a measured env has it")

    def close(self) -> None:
        """Nothing to give back."""
