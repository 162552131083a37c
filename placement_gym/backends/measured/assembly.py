"""A measured backend from the model and devices of a user."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.measured.engine_process import Recipe
from placement_gym.backends.measured.in_process import MeasuredBackend
from placement_gym.backends.measured.inspection import Inspection, inspect
from placement_gym.backends.measured.isolated import (
    TIMEOUT_S,
    EngineProcess,
    IsolatedBackend,
    inspect_in_new_process,
    remeasure_in_new_process,
)
from placement_gym.backends.measured.measuring import MeasuringBackend
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.base.arguments import check_positive
from placement_gym.base.arrays import BoolArray
from placement_gym.base.errors import UserError
from placement_gym.graph.extract import extract_spec
from placement_gym.graph.operators import FOLLOWERS
from placement_gym.graph.units import Units, group
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.models.loading import is_model_file
from placement_gym.models.spec import ModelSpec
from placement_gym.problem.allocations import fits_allocations
from placement_gym.problem.constraints import Constraints
from placement_gym.problem.problem import Problem

if TYPE_CHECKING:
    import openvino as ov


def build_measured_backend(
    spec: ModelSpec,
    devices: tuple[DeviceSpec, ...],
    split: str = "auto",
    protocol: TimingProtocol | None = None,
    isolate: bool = True,
    timeout_s: float = TIMEOUT_S,
    tolerance: float | None = None,
    constraints: Any = None,
) -> MeasuringBackend:
    """The backend of ``MeasuredEnv`` on these devices; see there for arguments and errors."""
    import openvino as ov

    if tolerance is not None:
        check_positive("tolerance", tolerance)
    bound = Constraints.parse(constraints)
    # What crashes OpenVINO as it reads or compiles must not end this process.
    if isolate:
        loaded, found = load_and_inspect(spec, devices, timeout_s)
    else:
        loaded = spec.load()
        found = inspect(loaded, devices, spec.fused)
    units = group(extract_spec(loaded, spec), spec.granularity, found.primitives)
    supported = find_supported(units, found.operators)
    supported &= np.stack([fits_allocations(units, device) for device in devices], axis=1)
    problem = bound.apply(Problem(units, devices, supported))
    # The worker builds the problem again from the spec and the recipe, also after a crash.
    engine = EngineProcess(spec.holding(loaded), Recipe.of(problem, split, tolerance), timeout_s)
    if isolate:
        return IsolatedBackend(engine, problem, protocol)
    # Without isolation a doubtful measurement is repeated in a new process, to tell the machine's
    # state from this process's.
    elsewhere = partial(remeasure_in_new_process, engine, problem)
    return MeasuredBackend(
        ov.Core(), loaded, problem, split, protocol, elsewhere, tolerance=tolerance
    )


def load_and_inspect(
    spec: ModelSpec, devices: Sequence[DeviceSpec], timeout_s: float, alone: bool = True
) -> tuple[ov.Model, Inspection]:
    """Load a model, and inspect it in a process of its own.

    A file is read in that process first: what crashes OpenVINO as it reads does not end this one.
    With ``alone`` the model is compiled only while no other process measures.

    Raises:
        UserError: The model cannot be loaded; see ``models.load``.
        EngineError: OpenVINO failed, or the process died or hangs.
    """
    if not is_model_file(spec.model):
        loaded = spec.load()
        return loaded, inspect_in_new_process(spec.holding(loaded), devices, timeout_s, alone)
    try:
        found = inspect_in_new_process(spec, devices, timeout_s, alone)
    except UserError:
        spec.load()  # it was read, and raises here what it raised there
        raise
    return spec.load(), found


def group_model(spec: ModelSpec) -> Units:
    """Group the operators of a model; ``"fused"`` takes the primitives that the CPU executes.

    Nothing is measured, so that it does not wait for other processes that measure.

    Raises:
        EngineError: The CPU cannot compile the model.
    """
    if not spec.fused:
        return group(extract_spec(spec.load(), spec), spec.granularity)
    loaded, found = load_and_inspect(spec, (), TIMEOUT_S, alone=False)
    return group(extract_spec(loaded, spec), spec.granularity, found.primitives)


def find_supported(units: Units, operators: Sequence[Collection[str]]) -> BoolArray:
    """(n_units, n_devices) bool: the device runs every operator of the unit.

    Constants, Parameters and Results follow their neighbours and need no support.

    Args:
        units: Groups of operators.
        operators: For each device, the names of the operators that it supports.
    """
    graph = units.graph
    result = np.ones((len(units), len(operators)), dtype=np.bool_)
    for column, known in enumerate(map(set, operators)):
        for operator, (name, kind) in enumerate(zip(graph.names, graph.types, strict=True)):
            if name not in known and kind not in FOLLOWERS:
                result[units.of_operator[operator], column] = False
    return result
