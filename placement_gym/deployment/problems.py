"""The problem that a command asks for: its keywords, and a backend with enough units to split."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from placement_gym.backends.measured import (
    MeasuredBackend,
    TimingProtocol,
    build_measured_backend,
    check_can_be_profiled,
    check_several,
)
from placement_gym.base import UserError, make_printable, name_first, progress_bar
from placement_gym.graph import FINER, MIN_USEFUL_UNITS, count_units
from placement_gym.hardware import DevicesArgument, resolve_devices
from placement_gym.models import Given, ModelSpec, Shapes
from placement_gym.problem import Constraints
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


def build_backend_to_split(
    spec: ModelSpec,
    devices: DevicesArgument = None,
    protocol: TimingProtocol | None = None,
    quiet: bool = False,
    tolerance: float | None = None,
    constraints: Any = None,
) -> tuple[MeasuredBackend, list[str]]:
    """Build a measured backend with at least four units, with a finer granularity if needed.

    A plain chain of layers is one unit under ``"colocated"``, which no placement splits. The notes
    are also printed to standard error before anything is measured.

    Args:
        spec: The model, and the granularity to start with.
        devices: As for ``gym.make``.
        protocol: Number of repetitions.
        quiet: Print nothing to standard error.
        tolerance: As for ``gym.make``.
        constraints: As for ``gym.make``.

    Returns:
        The backend; and notes on the number of units, and why they are finer than requested.

    Raises:
        UserError: There are fewer than two units, or the problem cannot be profiled.
    """
    bound = Constraints.parse(constraints)
    specs = resolve_devices(devices, "measured")
    check_several([device.name for device in specs])  # before anything waits for the machine

    def build(spec: ModelSpec) -> MeasuredBackend:
        with progress_bar(None, "", quiet, description="reading the model"):
            return build_measured_backend(
                spec, specs, protocol=protocol, tolerance=tolerance, constraints=bound
            )

    # Refine until there is something to decide: a plain chain of layers is one unit.
    backend, notes = build(spec), []
    while backend.problem.n_units < MIN_USEFUL_UNITS and spec.granularity in FINER:
        few, finer = count_units(backend.problem.units), FINER[spec.granularity]
        notes.append(f"granularity {spec.granularity!r} leaves only {few}: {finer!r} is used")
        spec = replace(spec, granularity=finer)
        backend = build(spec)
    problem = backend.problem
    notes.append(f"{count_units(problem.units)} to place (granularity {spec.granularity!r})")
    notes += problem.units.graph.request.list_notes()
    if deciding := [*problem.units.graph.find_deciding()]:
        notes.append(
            f"the data decide the output sizes of {name_first(deciding)}: times and memory are "
            "those of the sample inputs"
        )
    # Said now, because minutes of measuring follow.
    if not quiet:
        name = make_printable(problem.units.graph.model)
        print(f"{name}: {'; '.join(notes)}", file=sys.stderr, flush=True)
    if problem.n_units < 2:
        raise UserError(
            f"{problem.units.graph.model!r} has {count_units(problem.units)} even with granularity "
            f"{spec.granularity!r}: there is nothing to split"
        )
    check_can_be_profiled(problem)
    find_objective(backend.objective).check_rates(problem.units.graph.models)
    return backend, notes
