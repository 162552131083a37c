"""Groups of keywords that the functions of this package share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placement_gym.models import Given, ModelSpec, Shapes
from placement_gym.workloads import Objective, find_objective

DEFAULT_GRANULARITY = "fused"


@dataclass(frozen=True, kw_only=True)
class ProblemOptions:
    """Keywords of the problem other than the model and the devices, as for ``gym.make``."""

    granularity: str = DEFAULT_GRANULARITY
    shapes: Shapes | None = None
    inputs: Given | None = None
    scenario: str | None = None
    extension: str | Path | None = None
    tolerance: float | None = None

    def make_spec(self, model: Any) -> ModelSpec:
        """Make the specification of a model with these options."""
        return ModelSpec(
            model,
            self.granularity,
            "folded",
            self.shapes,
            self.inputs,
            self.scenario,
            self.extension,
        )


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Keywords that choose the candidates and decide among them; ``plan`` documents them.

    Raises:
        UserError: The objective is unknown.
    """

    objective: str = "latency"
    constraints: Any = None
    time_limit_s: float = 10.0
    phases: bool = False

    def __post_init__(self) -> None:
        find_objective(self.objective)

    @property
    def goal(self) -> Objective:
        """The objective itself."""
        return find_objective(self.objective)
