"""Units fine enough to split a model: a finer granularity where there would be too few."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.measured.measuring import MeasuringBackend
from placement_gym.backends.measured.profile import check_can_be_profiled, check_several
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.errors import UserError
from placement_gym.graph.units import FEW_UNITS, FINER, count_units
from placement_gym.machine import find_machine_devices
from placement_gym.models.shapes import Shapes
from placement_gym.progress import progress_bar
from placement_gym.texts import make_printable

DEFAULT_GRANULARITY = "fused"


def build_backend_to_split(
    model: Any,
    devices: Any = None,
    granularity: str = DEFAULT_GRANULARITY,
    protocol: TimingProtocol | None = None,
    quiet: bool = False,
    shapes: Shapes | None = None,
    scenario: str | None = None,
    data_shapes: Shapes | None = None,
    tolerance: float | None = None,
) -> tuple[MeasuringBackend, list[str]]:
    """A measured backend with at least four units, where a finer granularity can make them.

    A plain chain of layers is a single unit under ``"colocated"``: no placement would split it.
    The notes go to standard error too, before anything is measured.

    Args:
        model: As for ``gym.make``.
        devices: As for ``gym.make``.
        granularity: Where to start: ``"colocated"``, ``"fused"`` or ``"op"``.
        protocol: How often things run.
        quiet: Leave standard error alone.
        shapes: As for ``gym.make``.
        scenario: As for ``gym.make``.
        data_shapes: As for ``gym.make``.
        tolerance: As for ``gym.make``.

    Returns:
        The backend; and notes on how many units there are, and why they are finer than asked for.

    Raises:
        UserError: There are fewer than two units, or the problem cannot be profiled.
    """
    import openvino as ov

    specs = find_machine_devices(ov.Core(), devices)
    check_several([spec.name for spec in specs])  # before anything waits for the machine
    build = partial(
        build_with_progress,
        quiet,
        model,
        specs,
        protocol=protocol,
        shapes=shapes,
        scenario=scenario,
        data_shapes=data_shapes,
        tolerance=tolerance,
    )
    backend = build(granularity=granularity)
    notes = []
    while backend.problem.n_units < FEW_UNITS and granularity in FINER:
        found, finer = count_units(backend.problem.units), FINER[granularity]
        notes.append(f"granularity {granularity!r} leaves {found}, too few: {finer!r} is used")
        granularity = finer
        backend = build(granularity=granularity)
    problem = backend.problem
    notes.append(f"{count_units(problem.units)} to place (granularity {granularity!r})")
    if problem.units.graph.scenario:
        notes.append(f"latencies are those of scenario {problem.units.graph.scenario!r}")
    if problem.units.graph.data_shapes:
        notes.append(f"measured with {describe_sizes(problem.units.graph.data_shapes)}")
    if not quiet:
        name = make_printable(problem.units.graph.model)
        print(f"{name}: {'; '.join(notes)}", file=sys.stderr, flush=True)
    if problem.n_units < 2:
        raise UserError(
            f"{problem.units.graph.model!r} has {count_units(problem.units)} even with granularity "
            f"{granularity!r}: there is nothing to split, only to compare devices"
        )
    check_can_be_profiled(problem)
    return backend, notes


def build_with_progress(quiet: bool, *args: Any, **kwargs: Any) -> MeasuringBackend:
    """``build_measured_backend``, which compiles a large model for many seconds."""
    with progress_bar(None, "", quiet, description="reading the model"):
        return build_measured_backend(*args, **kwargs)


def describe_sizes(sizes: Mapping[str, Sequence[int]]) -> str:
    """``"input_ids[1,64], mask[1,64]"``."""
    return ", ".join(f"{name}[{','.join(map(str, one))}]" for name, one in sizes.items())
