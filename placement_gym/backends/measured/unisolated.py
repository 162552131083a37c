"""A measured backend in this process: for debugging, and for extensions that it has loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from placement_gym.backends.measured.in_process import MeasuredBackend
from placement_gym.backends.measured.inspecting import inspect
from placement_gym.backends.measured.inspection import Inspection
from placement_gym.backends.measured.isolated import EngineProcess, remeasure_in_new_process
from placement_gym.backends.measured.recipe import Recipe
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.hardware import DeviceSpec
from placement_gym.models import ModelSpec
from placement_gym.problem import Problem
from placement_gym.workloads import make_request

if TYPE_CHECKING:
    import openvino as ov


def build_unisolated_backend(
    spec: ModelSpec,
    devices: Sequence[DeviceSpec],
    make_problem: Callable[[ov.Model, Inspection], Problem],
    split: str,
    protocol: TimingProtocol | None,
    timeout_s: float,
    tolerance: float | None,
) -> MeasuredBackend:
    """Build the backend of ``build_measured_backend`` without isolation."""
    import openvino as ov

    model = spec.load()
    request = make_request(model, spec.scenario, spec.inputs)
    problem = make_problem(model, inspect(model, devices, spec.fused, request=request))
    engine = EngineProcess(spec.holding(model), Recipe.of(problem, split, tolerance), timeout_s)
    # Finalists are still measured in a new process: this one's caches, threads and memory differ
    # from those of a program that serves the placement.
    remeasure_elsewhere = partial(remeasure_in_new_process, engine, problem)
    return MeasuredBackend(
        ov.Core(), model, problem, split, protocol, remeasure_elsewhere, tolerance=tolerance
    )
