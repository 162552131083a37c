"""A measured backend from a user's arguments: a model, devices, a granularity."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from placement_gym.arguments import check_positive
from placement_gym.backends.measured.backend import MeasuredBackend
from placement_gym.backends.measured.inspection import Inspection, inspect
from placement_gym.backends.measured.isolated import (
    TIMEOUT_S,
    Engine,
    IsolatedBackend,
    inspect_in_new_process,
    remeasure_in_new_process,
)
from placement_gym.backends.measured.measuring import MeasuringBackend
from placement_gym.backends.measured.recipe import ModelSource, Recipe
from placement_gym.backends.measured.stage_costs import load_or_measure_costs
from placement_gym.backends.measured.support import find_supported
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.devices import DevicesArgument, DeviceSpec
from placement_gym.errors import UserError
from placement_gym.graph.extract import extract
from placement_gym.graph.units import Units, group
from placement_gym.machine import find_machine_devices
from placement_gym.models.loading import is_model_file
from placement_gym.models.shapes import Shapes
from placement_gym.problem import Problem

if TYPE_CHECKING:
    import openvino as ov


def build_measured_backend(
    model: str | Path | ov.Model,
    devices: DevicesArgument = None,
    granularity: str = "colocated",
    graph: str = "folded",
    split: str = "auto",
    protocol: TimingProtocol | None = None,
    isolate: bool = True,
    timeout_s: float = TIMEOUT_S,
    shapes: Shapes | None = None,
    scenario: str | None = None,
    data_shapes: Shapes | None = None,
    tolerance: float | None = None,
) -> MeasuringBackend:
    """The backend of ``MeasuredEnv``; see there for the arguments and errors."""
    import openvino as ov

    if tolerance is not None:
        check_positive("tolerance", tolerance)
    specs = find_machine_devices(ov.Core(), devices)
    fused = granularity == "fused"
    source = ModelSource(model, shapes=shapes, data_shapes=data_shapes)
    if isolate:
        loaded, found = load_and_inspect(source, specs, fused, timeout_s)
    else:
        loaded = source.load()
        found = inspect(loaded, specs, fused)
    units = group(extract(loaded, graph, scenario, data_shapes), granularity, found.primitives)
    problem = Problem(units, specs, find_supported(units, found.operators))
    recipe = Recipe.of(problem, graph, split, tolerance)
    engine = Engine(source.holding(loaded), recipe, timeout_s)
    if isolate:
        return IsolatedBackend(engine, problem, protocol, load_or_measure_costs)
    elsewhere = partial(remeasure_in_new_process, engine, problem)
    core = ov.Core()
    return MeasuredBackend(
        core,
        loaded,
        problem,
        split,
        protocol,
        load_or_measure_costs,
        elsewhere,
        tolerance=tolerance,
    )


def load_and_inspect(
    source: ModelSource,
    devices: Sequence[DeviceSpec],
    fused: bool,
    timeout_s: float,
    alone: bool = True,
) -> tuple[ov.Model, Inspection]:
    """Load a model, and inspect it in a process of its own.

    A file is read in that process first: what crashes OpenVINO as it reads does not end this one.
    With ``alone`` the model is compiled only while no other process measures.

    Raises:
        UserError: The model cannot be loaded; see ``models.load``.
        EngineError: OpenVINO failed, or the process died or hangs.
    """
    if not is_model_file(source.model):
        loaded = source.load()
        held = source.holding(loaded)
        return loaded, inspect_in_new_process(held, devices, fused, timeout_s, alone)
    try:
        found = inspect_in_new_process(source, devices, fused, timeout_s, alone)
    except UserError:
        source.load()  # it was read, and raises here what it raised there
        raise
    return source.load(), found


def group_model(
    model: str | Path | ov.Model,
    granularity: str,
    view: str,
    shapes: Shapes | None = None,
    scenario: str | None = None,
    data_shapes: Shapes | None = None,
) -> Units:
    """Group the operators of a model; ``"fused"`` takes the primitives that the CPU executes.

    Nothing is measured, so that it does not wait for other processes that measure.

    Raises:
        EngineError: The CPU cannot compile the model.
    """
    source = ModelSource(model, shapes=shapes, data_shapes=data_shapes)
    if granularity == "fused":
        loaded, found = load_and_inspect(source, (), fused=True, timeout_s=TIMEOUT_S, alone=False)
        graph = extract(loaded, view, scenario, data_shapes)
        return group(graph, granularity, found.primitives)
    return group(extract(source.load(), view, scenario, data_shapes), granularity)
