"""A measured backend from a user's arguments: a model, devices, a granularity."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from placement_gym.backends.measured.backend import MeasuredBackend
from placement_gym.backends.measured.isolated import (
    TIMEOUT_S,
    Engine,
    IsolatedBackend,
    remeasure_in_new_process,
)
from placement_gym.backends.measured.lock import measurement_lock
from placement_gym.backends.measured.measuring import MeasuringBackend
from placement_gym.backends.measured.profile import load_or_measure
from placement_gym.backends.measured.recipe import ModelSource, Recipe
from placement_gym.backends.measured.support import query_support
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.devices import DevicesArgument, find_machine_devices, register
from placement_gym.graph.extract import extract
from placement_gym.graph.primitives import query_primitives
from placement_gym.graph.units import Units, group
from placement_gym.models import load
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
    sequence_length: int | None = None,
    isolate: bool = True,
    timeout_s: float = TIMEOUT_S,
) -> MeasuringBackend:
    """The backend of ``MeasuredEnv``; see there for the arguments and errors."""
    import openvino as ov

    core = ov.Core()
    specs = find_machine_devices(core, devices)
    register(core, specs)
    loaded = load(model, sequence_length)
    units = group_model(loaded, granularity, graph)
    problem = Problem(units, specs, query_support(core, loaded, units, specs))
    source = ModelSource(model, sequence_length, loaded if isinstance(model, ov.Model) else None)
    engine = Engine(source, Recipe.of(problem, graph, split), timeout_s)
    if isolate:
        return IsolatedBackend(engine, problem, protocol, load_or_measure)
    elsewhere = partial(remeasure_in_new_process, engine, problem)
    return MeasuredBackend(core, loaded, problem, split, protocol, load_or_measure, elsewhere)


def group_model(model: ov.Model, granularity: str, view: str) -> Units:
    """Group the operators of a model; ``"fused"`` takes the primitives that the CPU executes."""
    graph = extract(model, view)
    if granularity != "fused":
        return group(graph, granularity)
    import openvino as ov

    precision = {"INFERENCE_PRECISION_HINT": "f32"}
    with measurement_lock():
        primitives = query_primitives(ov.Core(), model, "CPU", precision)
    return group(graph, granularity, primitives)
