# White-box tests of backends.measured
"""Placements, outputs and environments on the CPU test bed, shared by the measured tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from fakes import assignment
from numpy.typing import NDArray

from placement_gym.backends.measured import (
    MeasuredBackend,
    Reporter,
    TimingProtocol,
    build_measured_backend,
    uses_aliases,
)
from placement_gym.backends.measured.worker import Worker
from placement_gym.envs import DevicePlacementEnv
from placement_gym.hardware import TESTBED, DeviceSpec, usable_cores
from placement_gym.models import ModelSpec, load_model
from placement_gym.problem import Placement, Problem
from placement_gym.workloads import sample_inputs

QUICK = {"warmup": 1, "repeats": 2}
ONCE = TimingProtocol(warmup=0, repeats=2)
N_TINY = 7
CHESSBOARD = [0, 1, 1, 0, 1, 0, 1]
TINY_SPLITS = (
    [0] * N_TINY,
    [1] * N_TINY,
    [0, 0, 0, 0, 1, 1, 1],
    [1, 0, 0, 0, 0, 0, 0],
    [0, 1, 1, 0, 0, 0, 0],
    [0, 0, 1, 0, 1, 0, 0],
    CHESSBOARD,
)


needs_two_cores = pytest.mark.skipif(usable_cores() < 2, reason="needs two cores")


needs_bf16 = pytest.mark.skipif(
    "BF16" not in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"),
    reason="this CPU has no bf16",
)


def make(model: Any = "tiny", devices: Any = "cpu-testbed", **kwargs: Any) -> DevicePlacementEnv:
    """The measured environment; in this process, which starts faster, unless ``isolate`` is set."""
    options = {"isolate": False, **QUICK, **kwargs}
    env = gym.make("DevicePlacement-v0", model=model, devices=devices, **options)
    return cast(DevicePlacementEnv, env.unwrapped)


def step(env: DevicePlacementEnv, devices: Sequence[int]) -> dict[str, Any]:
    env.reset()
    return env.step(devices)[4]


@cache
def known_model(name: str) -> ov.Model:
    return load_model(name)


@cache
def known_problem(name: str, devices: tuple[DeviceSpec, ...] = TESTBED) -> Problem:
    return make(name, devices).problem


def placement(
    name: str, placed: Sequence[int], devices: tuple[DeviceSpec, ...] = TESTBED
) -> Placement:
    return Placement.from_assignment(known_problem(name, devices), assignment(placed))


def halves(name: str) -> list[int]:
    n = known_problem(name).n_units
    return [0] * (n // 2) + [1] * (n - n // 2)


def outputs(compiled: ov.CompiledModel, model: ov.Model) -> list[NDArray[Any]]:
    request = compiled.create_infer_request()
    request.infer(dict(enumerate(sample_inputs(model))))
    return [tensor.data.astype(np.float64) for tensor in request.output_tensors]


@cache
def plain_outputs(name: str) -> list[NDArray[Any]]:
    model = known_model(name)
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return outputs(compiled, model)


def worst_relative(found: list[NDArray[Any]], expected: list[NDArray[Any]]) -> float:
    assert len(found) == len(expected)
    return max(
        float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, expected, strict=True)
    )


def measure_here(
    core: ov.Core,
    model: ov.Model,
    problem: Problem,
    split: str = "auto",
    protocol: TimingProtocol = ONCE,
    reporter: Reporter | None = None,
    tolerance: float | None = None,
) -> MeasuredBackend:
    """A backend that measures everything in this process, finalists too."""
    alias = uses_aliases(split, problem.devices)
    worker = Worker(core, model, problem, alias, reporter, tolerance)
    return MeasuredBackend(worker, problem, alias, protocol)


def worker_of(backend: MeasuredBackend) -> Worker:
    """The worker of a backend in this process, with the backend's protocol."""
    assert isinstance(backend.engine, Worker)
    backend.engine.protocol = backend.protocol
    return backend.engine


def backend(core: ov.Core, name: str = "tiny", **protocol: int) -> MeasuredBackend:
    protocol = {"final_repeats": 2, **QUICK, **protocol}
    return measure_here(
        core, known_model(name), known_problem(name), "alias", TimingProtocol(**protocol)
    )


def build_here(
    spec: ModelSpec, devices: tuple[DeviceSpec, ...] = TESTBED, protocol: TimingProtocol = ONCE
) -> MeasuredBackend:
    """A backend that measures a model in this process."""
    return build_measured_backend(spec, devices, protocol=protocol, isolate=False)
