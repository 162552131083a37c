"""Throughput: several requests in flight, and single devices at their best."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops
from testbed import make, step

from placement_gym import DeviceSpec
from placement_gym.backends.failures import EngineFailureError
from placement_gym.backends.measured import throughput, timing
from placement_gym.backends.measured.in_process import MeasuredBackend
from placement_gym.backends.measured.throughput import InFlight, list_streams
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.backends.pipeline.stage import Stage
from placement_gym.base.errors import UserError
from placement_gym.graph.units import Units, contract
from placement_gym.hardware.devices import usable_cores
from placement_gym.models import load
from placement_gym.problem.problem import Problem

TWO = (DeviceSpec("CPU", threads=1), DeviceSpec("CPU_B", plugin="CPU", threads=1))
SPLIT = np.array([0, 0, 1, 1])
ONCE = {
    "warmup": 0,
    "repeats": 2,
    "final_repeats": 2,
    "final_compiles": 2,
    "window": 2,
}


@cache
def chain() -> ov.Model:
    """Four layers that cost next to nothing."""
    rng = np.random.default_rng(0)
    node = ops.parameter((1, 8), np.float32, "x")
    inputs = [node]
    for layer in range(4):
        weights = rng.random((8, 8), dtype=np.float32)
        node = ops.tanh(ops.matmul(node, weights, False, False), name=f"layer{layer}")
    return ov.Model([node], inputs, "chain")


@cache
def problem(devices: tuple[DeviceSpec, ...]) -> Problem:
    """Each layer is a unit."""
    units = make(chain(), devices, granularity="op").problem.units
    labels = np.arange(len(units.graph)) // 2
    grouped = Units("layer", units.graph, labels, contract(units.graph, labels))
    return Problem(grouped, devices, np.ones((4, len(devices)), dtype=np.bool_))


@pytest.fixture(autouse=True)
def _few_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "TUNING_WINDOWS", 2)


def build(devices: tuple[DeviceSpec, ...] = TWO, **protocol: Any) -> MeasuredBackend:
    options = {**ONCE, "objective": "throughput", **protocol}
    return MeasuredBackend(
        ov.Core(), load(chain()), problem(devices), "auto",
        TimingProtocol(**options),
    )  # fmt: skip


def test_a_split_has_its_requests_and_a_single_device_its_best() -> None:
    backend = build()
    split = backend.evaluate(SPLIT)
    assert (split.error, split.requests, split.streams) == ("", 3, 1)
    assert (split.n_submodels, split.n_submodels_expected) == (2, 2)
    alone = backend.evaluate(np.ones_like(SPLIT))
    assert alone.requests in (1, 2)
    assert backend.pipelines.best.keys() == {0, 1}  # the reference device, and this one
    assert build(requests=5).evaluate(SPLIT).requests == 5


def test_finalists_are_compiled_anew_and_measured_side_by_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # rounds that other programs disturb would count for one finalist and not for the other
    monkeypatch.setattr(timing, "find_share", lambda *_: 0.0)
    first, second = build().remeasure([np.zeros_like(SPLIT), SPLIT])
    assert first.reference_ms == second.reference_ms == first.latency_ms
    assert (second.requests, second.n_submodels) == (3, 2)


def test_stages_are_timed_on_their_devices() -> None:
    found = build(counter_inferences=2).measure_stages([np.zeros_like(SPLIT), SPLIT])
    assert found.shape == (2, 2, 2)
    assert (found > 0.0).tolist() == [[[True, False], [True, True]]] * 2


def test_waiting_for_a_core_is_no_device_time_in_host_memory() -> None:
    class Stages:
        """A request takes 6 s in each of two stages, of which 2 s are processor time."""

        stages = tuple(
            SimpleNamespace(device=name, busy_s=7.0, processor_s=4.0) for name in ("CPU_B", "GPU")
        )

        def run(self) -> None:
            for stage in self.stages:
                stage.busy_s, stage.processor_s = 13.0, 6.0

    devices = (DeviceSpec("CPU"), DeviceSpec("GPU"), TWO[1])
    pipeline: Any = Stages()
    assert throughput.time_devices(pipeline, devices) == [0.0, 6000.0, 2000.0]


def test_streams_of_a_single_device_give_the_most_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = build((DeviceSpec("CPU", threads=4), TWO[1]))

    def scripted(in_flight: InFlight) -> float:
        streams = int(in_flight.stages[0].compiled.get_property("NUM_STREAMS"))
        return 10.0 - streams if in_flight.requests == streams == 2 else 10.0

    monkeypatch.setattr(InFlight, "time_window", scripted)
    assert backend.pipelines.find_best(0, 8) == (2, 2)


@pytest.mark.parametrize(
    ("spec", "streams"),
    [
        (DeviceSpec("CPU", threads=1), [1]),
        (DeviceSpec("CPU", threads=6), [1, 2, 4, 6]),
        (DeviceSpec("CPU", threads=6, properties={"NUM_STREAMS": 3}), [3]),
        (DeviceSpec("GPU"), [1, 2]),
        (DeviceSpec("NPU"), [1]),
    ],
)
def test_numbers_of_streams_to_try(spec: DeviceSpec, streams: list[int]) -> None:
    assert list_streams(spec) == streams


def test_device_without_a_thread_count_is_tried_with_all_cores() -> None:
    assert list_streams(DeviceSpec("CPU"))[-1] == usable_cores()


def test_a_window_counts_neither_filling_nor_emptying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three requests in flight: the first three results and the last three are not timed."""
    backend = build()
    in_flight = backend.compile(SPLIT).inferences
    assert isinstance(in_flight, InFlight)
    clock = iter([0.0, 1.0, 100.0, *(100.0 + 2.0 * i for i in range(1, 7)), 500.0, 501.0, 502.0])
    monkeypatch.setattr(throughput, "perf_counter", lambda: next(clock))
    beats: list[str] = []
    found = InFlight.of(in_flight.pipelines, in_flight.steps, beats.append, 5).time_window()
    assert found == pytest.approx(2000.0)
    assert len(beats) == 3 + 6 + 3


def test_requests_that_disturb_each_other_are_infeasible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = build()
    backend.check_reference()
    kept = InFlight.flatten
    calls = []

    def sometimes_wrong(in_flight: InFlight, future: Any) -> Any:
        calls.append(future)
        return [output + (len(calls) == 4) for output in kept(in_flight, future)]

    monkeypatch.setattr(InFlight, "flatten", sometimes_wrong)
    with pytest.raises(EngineFailureError, match="requests in flight: outputs differ"):
        backend.measure_once(SPLIT)
    calls.clear()
    failed = backend.evaluate(SPLIT)
    assert (failed.feasible, failed.requests) == (False, 0)
    assert failed.latency_ms == 10 * backend.reference_ms


def test_a_stage_that_fails_makes_a_placement_infeasible(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = build()
    backend.check_reference()
    run = Stage.run

    def refuse(stage: Stage, *arguments: Any) -> None:
        if stage.device == "CPU_B":
            raise RuntimeError("Exception from plugin.cpp:1:\nthe plugin is tired")
        run(stage, *arguments)

    monkeypatch.setattr(Stage, "run", refuse)
    failed = backend.evaluate(SPLIT)
    assert failed.error == "stage 1 on CPU_B failed: the plugin is tired"


def test_objectives_share_neither_references_nor_sessions() -> None:
    backend = build()
    latency = backend.with_protocol(TimingProtocol(warmup=0, repeats=2))
    assert latency.session is not backend.session
    assert backend.with_protocol(backend.protocol).session is backend.session
    assert latency.evaluate(SPLIT).requests is None
    backend.evaluate(SPLIT)
    own = backend.references["throughput"]
    backend.protocol = latency.protocol  # as a worker does for each request
    assert backend.reference is not own
    assert backend.measure_once(SPLIT).requests is None


def test_info_tells_requests_and_results_a_second() -> None:
    env = make(chain(), TWO, granularity="op", objective="throughput", requests=2)
    info = step(env, [0] * 4 + [1] * 4)
    assert info["requests"] == 2
    assert info["streams"] == 1
    assert info["requests_per_s"] == pytest.approx(1e3 / info["latency_ms"])
    assert "requests_per_s" not in make(chain(), TWO).reset()[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"objective": "througput"}, "did you mean 'throughput'"),
        ({"requests": 2}, "belong to objective='throughput'"),
        ({"objective": "throughput", "requests": 0}, "at least 1"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        make("tiny", TWO, **options)


@pytest.mark.slow
def test_the_engine_measures_throughput_in_a_process_of_its_own() -> None:
    env = make("tiny", TWO, objective="throughput", isolate=True)
    info = step(env, [0, 0, 0, 1, 1, 1, 1])
    assert (info["requests"], info["n_submodels"], info["error"]) == (3, 2, "")
    env.close()


@pytest.mark.slow
def test_a_request_of_a_model_with_state_is_the_scenario() -> None:
    env = make("gpt", TWO, objective="throughput", scenario="chat-4-2")
    n = env.problem.n_units
    info = step(env, [0] * (n // 2) + [1] * (n - n // 2))
    assert (info["error"], info["requests"] > 2) == ("", True)
    assert "prefill_ms" not in info
