"""Construction of a measured backend from a user's model and devices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.measured.backend import MeasuredBackend
from placement_gym.backends.measured.engine import (
    TIMEOUT_S,
    EngineProcess,
    Inspection,
    inspect_in_new_process,
)
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.base import (
    SPLITS,
    BoolArray,
    UserError,
    check_choice,
    check_positive,
    name_first,
    warn_user,
)
from placement_gym.graph import Units, extract_spec, group
from placement_gym.hardware import ALIASABLE, DeviceSpec
from placement_gym.models import ModelSpec, is_model_file
from placement_gym.problem import Problem, fits_allocations
from placement_gym.workloads import check_inputs

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.problem.costs import CostTable


def build_measured_backend(
    spec: ModelSpec,
    devices: tuple[DeviceSpec, ...],
    split: str = "auto",
    protocol: TimingProtocol | None = None,
    isolate: bool = True,
    timeout_s: float = TIMEOUT_S,
    tolerance: float | None = None,
    constraints: Any = None,
) -> MeasuredBackend:
    """The backend of ``MeasuredEnv`` on these devices; see there for arguments and errors."""
    if tolerance is not None:
        check_positive("tolerance", tolerance)
    restrict, alias = parse_constraints(constraints), uses_aliases(split, devices)
    if isolate:
        # A crash of OpenVINO while it reads or compiles the model does not end this process.
        model, inspection = load_and_inspect(spec, devices, timeout_s)
    else:
        from placement_gym.backends.measured.inspector import read_and_inspect

        model, inspection = read_and_inspect(spec, devices)
    units = group_inspected(model, spec, inspection)
    check_inputs(units.graph.request, model)
    supported = find_supported(units, inspection.operators)
    supported &= np.stack([fits_allocations(units, device) for device in devices], axis=1)
    problem = restrict(Problem(units, devices, supported))
    spec = spec.with_loaded_model(model)
    process = EngineProcess(spec, problem, alias, tolerance, timeout_s)
    if isolate:
        return MeasuredBackend(process, problem, alias, protocol, process, measure_costs)
    import openvino as ov

    from placement_gym.backends.measured.worker import Worker

    worker = Worker(ov.Core(), model, problem, alias, tolerance=tolerance)
    return MeasuredBackend(worker, problem, alias, protocol, process, measure_costs)


def uses_aliases(split: str, specs: Sequence[DeviceSpec]) -> bool:
    """Return whether a split mode gives devices alias names.

    Raises:
        UserError: The mode is unknown, or a device cannot have aliases.
    """
    check_choice("split", split, SPLITS)
    unaliasable = [spec.name for spec in specs if spec.kind not in ALIASABLE]
    if split == "alias" and unaliasable:
        raise UserError(
            f"{unaliasable} cannot be given a second name: use split='hetero' or 'auto'"
        )
    return split != "hetero"


def measure_costs(backend: MeasuredBackend) -> CostTable:
    from placement_gym.backends.measured.kept_profiles import load_or_measure

    return load_or_measure(backend, quick=True)


def parse_constraints(constraints: Any) -> Callable[[Problem], Problem]:
    """Parse constraints; returns the function that applies them to a problem."""
    if constraints is None:
        return lambda problem: problem
    from placement_gym.problem import Constraints

    return Constraints.parse(constraints).apply


def load_and_inspect(
    spec: ModelSpec, devices: Sequence[DeviceSpec], timeout_s: float
) -> tuple[ov.Model, Inspection]:
    """Load a model and inspect it in another process, which reads a file before this one does."""
    if not is_model_file(spec.model):
        model = spec.load()
        spec = spec.with_loaded_model(model)
        return model, inspect_in_new_process(spec, devices, timeout_s)
    try:
        inspection = inspect_in_new_process(spec, devices, timeout_s)
    except UserError:
        spec.load()  # raises the same error, without the worker's traceback
        raise
    return spec.load(), inspection


def inspect_and_group(spec: ModelSpec) -> Units:
    """Group the operators of a model that OpenVINO has to compile or run to find the units.

    It compiles for ``"fused"`` units, and runs where data decide sizes. It does not wait for other
    processes that measure.

    Raises:
        EngineError: The CPU cannot compile the model.
    """
    model, inspection = load_and_inspect(spec, (), TIMEOUT_S)
    return group_inspected(model, spec, inspection)


def group_inspected(model: ov.Model, spec: ModelSpec, inspection: Inspection) -> Units:
    graph = extract_spec(model, spec, inspection.found)
    if empty := [name for name, is_empty in graph.find_deciding().items() if is_empty]:
        warn_user(
            f"{name_first(empty)} found nothing on the sample inputs, so what follows is "
            "timed on empty tensors: give inputs of your own, as in --inputs FILE (inputs=)"
        )
    return group(graph, spec.granularity, inspection.primitives)


def find_supported(units: Units, operators: Sequence[Collection[str]]) -> BoolArray:
    """(n_units, n_devices) bool, whether a device supports every operator of a unit.

    ``operators`` has the names that each device supports. Constants, Parameters and Results follow
    their neighbours and need no support.
    """
    graph = units.graph
    runs = [np.isin(graph.names, list(names)) | graph.follows for names in operators]
    result = np.ones((len(units), len(operators)), dtype=np.bool_)
    np.logical_and.at(result, units.of_operator, np.stack(runs, axis=1))
    return result
