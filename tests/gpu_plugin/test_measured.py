# White-box tests of backends.measured
"""Placements that OpenVINO's own GPU plugin compiles, runs and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino as ov
import pytest
from choosing_models import make_detector, make_suppressed
from gpu_models import make_problem
from testbed import measure_here, worker_of

from placement_gym.backends import Measurement
from placement_gym.backends.measured import (
    MeasuredBackend,
    Reporter,
    TimingProtocol,
    counters,
    relative_error,
)
from placement_gym.hardware import DeviceSpec
from placement_gym.models import load_model

pytestmark = pytest.mark.gpu_plugin

ONCE = TimingProtocol(warmup=0, repeats=1, counter_inferences=2)
EXACT = (DeviceSpec("CPU"), DeviceSpec("GPU"))
HALF = (DeviceSpec("CPU"), DeviceSpec("GPU", precision="f16"))


def build(
    devices: Sequence[DeviceSpec], reporter: Reporter | None = None, protocol: TimingProtocol = ONCE
) -> MeasuredBackend:
    core = ov.Core()
    model, problem = make_problem(core, devices)
    return measure_here(core, model, problem, protocol=protocol, reporter=reporter)


def evaluate(backend: MeasuredBackend, assignment: Sequence[int]) -> Measurement:
    return backend.evaluate(np.array(assignment, dtype=np.int64))


def test_a_head_that_chooses_passes_in_half_precision() -> None:
    core = ov.Core()
    model, problem = make_problem(core, HALF, load_model(make_detector(n=4000)))
    backend = measure_here(core, model, problem, protocol=ONCE)
    worker = worker_of(backend)
    outputs = worker.compile(problem.single(1)).outputs()
    assert relative_error(outputs, worker.reference_outputs.expected) > backend.tolerance
    assert backend.evaluate(problem.single(1)).error == ""


def test_a_suppression_passes_in_half_precision_though_the_gpu_leaves_rows_free() -> None:
    core = ov.Core()
    model, problem = make_problem(core, HALF, load_model(make_suppressed()))
    backend = measure_here(core, model, problem, protocol=ONCE)
    assert backend.evaluate(problem.single(1)).error == ""


@pytest.mark.parametrize("placed", [[0, 1, 1], [1, 1, 0], [1, 0, 1], [1, 1, 1]])
def test_splits_run_as_expected_and_compute_the_same(placed: list[int]) -> None:
    measured = evaluate(build(EXACT), placed)
    assert measured.error == ""
    assert measured.n_submodels == measured.n_submodels_expected
    assert measured.held_bytes[0] is None  # a CPU does not report it
    assert measured.held_bytes[1] > measured.memory_bytes[1]


def test_each_of_two_gpus_holds_what_was_placed_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_LAYER_COUNT", "2")
    devices = (DeviceSpec("CPU"), DeviceSpec("GPU.0"), DeviceSpec("GPU.1"))
    measured = evaluate(build(devices), [0, 1, 2])
    assert (measured.error, measured.n_submodels) == ("", 3)
    assert all(held > 0 for held in measured.held_bytes[1:])


def test_neighbours_on_one_gpu_are_kept_apart_by_an_alias() -> None:
    # 1, 0, 1 with an edge from the first to the last would close a circle
    backend = build(EXACT)
    assert backend.alias
    measured = evaluate(backend, [1, 0, 1])
    assert (measured.error, measured.n_submodels) == ("", 3)


@pytest.mark.parametrize(
    "devices", [EXACT, pytest.param(HALF, marks=pytest.mark.slow)], ids=["f32", "f16"]
)
def test_counters_of_the_gpu_reach_the_operators(devices: tuple[DeviceSpec, ...]) -> None:
    messages: list[str] = []
    backend = build(devices, Reporter(print_message=messages.append))
    times = dict(
        zip(backend.problem.units.graph.names, backend.measure_operators(1).tolist(), strict=True)
    )
    assert times["scores"] > 0.0
    assert not any("100%" in message for message in messages)


def test_a_lost_name_of_a_counter_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    backend = build(EXACT, Reporter(print_message=messages.append))
    monkeypatch.setattr(counters, "members_of_primitives", lambda _: {})
    timed = counters.time_primitives

    def rename(*given: Any) -> tuple[float, dict[str, float]]:
        latency_ms, times_ms = timed(*given)
        return latency_ms, {f"a/{name}/b": ms for name, ms in times_ms.items()}

    monkeypatch.setattr(counters, "time_primitives", rename)
    times = backend.measure_operators(1)
    assert any("100% of the counted" in message for message in messages)
    assert times.sum() > 0.0


def test_half_precision_is_within_its_tolerance() -> None:
    backend = build(HALF)
    assert backend.tolerance == 3e-2
    alone = backend.problem.single(1)
    assert 1e-6 < backend.output_error(alone) < backend.tolerance


def test_openvinos_own_choice_is_an_assignment_on_gpus_too() -> None:
    backend = build(EXACT)
    for plugin in ("HETERO", "AUTO"):
        assert set(backend.own_choice(plugin).tolist()) <= {0, 1}


def test_a_tensor_beyond_the_largest_allocation_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPU_LAYER_ALLOCATION", "100")
    measured = evaluate(build(EXACT), [1, 1, 1])
    assert not measured.feasible
    assert "[GPU] Exceeded max size of memory object allocation" in measured.error


@pytest.mark.slow
def test_throughput_and_streams_run_on_a_gpu() -> None:
    protocol = TimingProtocol(warmup=0, repeats=1, objective="throughput", window=2)
    backend = build(EXACT, protocol=protocol)
    for placed in ([0, 1, 1], [1, 1, 1]):
        measured = evaluate(backend, placed)
        assert measured.error == ""
        assert measured.requests
