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
        # OpenVINO may crash while it reads or compiles the model: that must not end this process.
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
    """Return whether a split mode gives alias names to the devices that can have them.

    Raises:
        ValueError: Unknown mode, or aliases of a plugin that cannot be registered twice.
    """
    check_choice("split", split, SPLITS)
    unaliasable = [spec.name for spec in specs if spec.kind not in ALIASABLE]
    if split == "alias" and unaliasable:
        raise UserError(
            f"{unaliasable} cannot be given a second name: use split='hetero' or 'auto'"
        )
    return split != "hetero"


def measure_costs(backend: MeasuredBackend) -> CostTable:
    """Load or measure the profile of ``MeasuredBackend.cost_table``."""
    from placement_gym.backends.measured.kept_profiles import load_or_measure

    return load_or_measure(backend, quick=True)


def parse_constraints(constraints: Any) -> Callable[[Problem], Problem]:
    """Make the function that restricts a problem as ``Constraints.parse`` and ``apply`` do."""
    if constraints is None:
        return lambda problem: problem
    from placement_gym.problem import Constraints

    return Constraints.parse(constraints).apply


def load_and_inspect(
    spec: ModelSpec, devices: Sequence[DeviceSpec], timeout_s: float, exclusive: bool = True
) -> tuple[ov.Model, Inspection]:
    """Load a model, and inspect it in a separate process.

    A file is read in that process first: a crash of OpenVINO does not end this one.
    With ``exclusive`` the model is compiled only while no other process measures.

    Raises:
        UserError: The model cannot be loaded; see ``load_model``.
        EngineError: OpenVINO failed, or the process died or hangs.
    """
    if not is_model_file(spec.model):
        model = spec.load()
        return model, inspect_in_new_process(
            spec.with_loaded_model(model), devices, timeout_s, exclusive
        )
    try:
        inspection = inspect_in_new_process(spec, devices, timeout_s, exclusive)
    except UserError:
        spec.load()  # raises the same error, without the worker's traceback
        raise
    return spec.load(), inspection


def inspect_and_group(spec: ModelSpec) -> Units:
    """Group the operators of a model that OpenVINO has to compile or to run for that.

    It does for ``"fused"`` units, the primitives that the CPU executes, and for sizes that the data
    decide. Nothing is measured, and no other process that measures is waited for.

    Raises:
        EngineError: The CPU cannot compile the model.
    """
    model, inspection = load_and_inspect(spec, (), TIMEOUT_S, exclusive=False)
    return group_inspected(model, spec, inspection)


def group_inspected(model: ov.Model, spec: ModelSpec, inspection: Inspection) -> Units:
    """Group the operators of a model, with what was found by running it."""
    graph = extract_spec(model, spec, inspection.found)
    if empty := [name for name, is_empty in graph.find_deciding().items() if is_empty]:
        warn_user(
            f"{name_first(empty)} found nothing on the sample inputs, so what follows is "
            "timed on empty tensors: give inputs of your own, as in --inputs FILE (inputs=)"
        )
    return group(graph, spec.granularity, inspection.primitives)


def find_supported(units: Units, operators: Sequence[Collection[str]]) -> BoolArray:
    """(n_units, n_devices) bool: the device runs every operator of the unit.

    Constants, Parameters and Results follow their neighbours and need no support.

    Args:
        units: Groups of operators.
        operators: For each device, the names of the operators that it supports.
    """
    graph = units.graph
    runs = [np.isin(graph.names, list(names)) | graph.follows for names in operators]
    result = np.ones((len(units), len(operators)), dtype=np.bool_)
    np.logical_and.at(result, units.of_operator, np.stack(runs, axis=1))
    return result
