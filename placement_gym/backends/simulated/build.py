"""Construction of a simulated problem from a model: units, devices, costs, default schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from placement_gym.base import JsonFile, UserError, is_path, suggest
from placement_gym.graph import Units, extract_spec, group
from placement_gym.hardware import DevicesArgument, DeviceSpec, resolve_devices
from placement_gym.models import GENERATED, ModelSpec
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable, analytic

KEPT_MODELS = 8
"""Models whose units are kept for further environments. Hand-tuned."""


@dataclass(frozen=True)
class SimulatedProblem:
    """A problem, the costs of its operators, and the preset of its default schedule."""

    problem: Problem
    costs: CostTable
    schedule: str


def build_simulated_problem(
    spec: ModelSpec,
    devices: DevicesArgument = None,
    costs: str | Path | CostTable | None = None,
    constraints: Any = None,
) -> SimulatedProblem:
    """Build the problem of ``SimulatedEnv``; see there for arguments and errors."""
    if constraints is None:
        return build_free_problem(spec, devices, costs)
    from placement_gym.problem import Constraints

    rules = Constraints.parse(constraints)  # before seconds of reading a model
    unconstrained = build_free_problem(spec, devices, costs)
    return replace(unconstrained, problem=rules.apply(unconstrained.problem))


def build_free_problem(
    spec: ModelSpec, devices: DevicesArgument, costs: str | Path | CostTable | None
) -> SimulatedProblem:
    """Build the problem without constraints."""
    if is_workload(spec.model):
        units, specs, table = load_workload_parts(spec, devices, costs)
    elif costs == "profiled":
        return build_profiled_problem(spec, devices)
    else:
        units, specs = build_units(spec), resolve_devices(devices, "simulated")
        if costs is None or costs == "analytic":
            table = analytic(units.graph, specs)
        else:
            table = load_costs(costs, ("analytic", "profiled"), units, specs)
        check_work(units, table)
    return SimulatedProblem(make_problem(units, specs, table), table, default_schedule(spec.model))


def check_work(units: Units, table: CostTable) -> None:
    """Raise ``UserError`` if no operator of a model takes any time."""
    if not table.unit_ms(units).any():
        raise UserError(
            f"{units.graph.model!r} has nothing to place: none of its operators takes any time"
        )


def default_schedule(model: object) -> str:
    """The default preset of a simulated environment of this model."""
    return "list" if is_workload(model) else "serial"


def is_workload(model: object) -> bool:
    """Return whether a model argument is a graph with its costs, or a file of one."""
    named = isinstance(model, (str, Path)) and Path(model).suffix == ".json"
    return named or isinstance(model, JsonFile)


def check_no_sizes(spec: ModelSpec) -> None:
    """Raise ``UserError`` if shapes, inputs or a scenario are given for a graph alone."""
    given = [name for name in ("shapes", "inputs", "scenario") if name in spec.to_json()]
    if given:
        raise UserError(
            f"{' and '.join(given)} are for OpenVINO models, and {spec.model!r} is a graph alone: "
            "leave them out"
        )


def build_units(spec: ModelSpec) -> Units:
    """Group the operators of a generated graph, or of a model that OpenVINO reads."""
    graph = None
    if isinstance(spec.model, str) and GENERATED.match(spec.model):
        from placement_gym.graph import build_generated

        graph = build_generated(spec.model)
    if graph is None:
        return group_model(spec)
    check_no_sizes(spec)
    return group(graph, "op" if spec.fused else spec.granularity)


def group_model(spec: ModelSpec) -> Units:
    """Group the operators of a model that OpenVINO reads, once for all its environments."""
    if spec.in_memory or spec.inputs is not None or spec.extension:
        return read_and_group(spec)
    names = spec.model if isinstance(spec.model, tuple) else (spec.model,)
    return group_once(spec, tuple(state_of_file(Path(str(name))) for name in names))


def state_of_file(path: Path) -> tuple[int, ...]:
    """Times of modification and sizes of a model's files; empty for a built-in model."""
    states = [file.stat() for file in (path, path.with_suffix(".bin")) if file.is_file()]
    return tuple(number for state in states for number in (state.st_mtime_ns, state.st_size))


@lru_cache(KEPT_MODELS)
def group_once(spec: ModelSpec, files: tuple[tuple[int, ...], ...]) -> Units:
    """``read_and_group``, cached by specification and state of the files."""
    return read_and_group(spec)


def read_and_group(spec: ModelSpec) -> Units:
    """Read a model and group its operators; OpenVINO may have to compile or run it."""
    if not spec.fused:
        graph = extract_spec(spec.load(), spec)
        if not graph.found:
            return group(graph, spec.granularity)
    from placement_gym.backends.measured import inspect_and_group

    return inspect_and_group(spec)


def load_workload_parts(
    spec: ModelSpec, devices: DevicesArgument, costs: str | Path | CostTable | None
) -> tuple[Units, tuple[DeviceSpec, ...], CostTable]:
    """Load a graph with its costs: its units, devices and costs on them."""
    from placement_gym.problem.costs import load_workload

    check_no_sizes(spec)
    workload = load_workload(spec.model)
    specs = workload.devices if devices is None else resolve_devices(devices, "simulated")
    units = workload.units(spec.granularity)
    if costs is None or costs in workload.sources:
        table = workload.costs(specs, str(costs or workload.sources[0]))
    else:
        table = load_costs(costs, workload.sources, units, specs)
    return units, specs, table


def build_profiled_problem(spec: ModelSpec, devices: DevicesArgument) -> SimulatedProblem:
    """Build the problem of this machine's devices from their profile."""
    from placement_gym.backends.measured import build_measured_backend

    backend = build_measured_backend(spec, resolve_devices(devices, "measured"))
    return SimulatedProblem(backend.problem, backend.cost_table(), default_schedule(spec.model))


def make_problem(units: Units, devices: tuple[DeviceSpec, ...], table: CostTable) -> Problem:
    """Make the problem with the support and memory of a cost table."""
    return Problem(units, devices, table.units_supported(units), table.memory_bytes)


def load_costs(
    costs: str | Path | CostTable,
    names: tuple[str, ...],
    units: Units,
    devices: tuple[DeviceSpec, ...],
) -> CostTable:
    """Load a cost table, unless it is one, and check it for these units and devices."""
    if not isinstance(costs, CostTable) and not is_path(costs):
        raise UserError(
            f"costs must be one of {', '.join(names)}, a CostTable or its file, and "
            f"{str(costs)!r:.200} is not a file{suggest(costs, names)}"
        )
    table = costs if isinstance(costs, CostTable) else CostTable.load(costs)
    table.check(units.graph, tuple(device.name for device in devices))
    return table
