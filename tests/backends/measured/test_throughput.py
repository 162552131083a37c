# White-box tests of backends.measured
"""Throughput: several requests in flight, and single devices at their best."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import openvino as ov
import pytest
from foreign_models import make_decoder
from openvino import opset13 as ops
from testbed import make, measure_here, step, worker_of

from placement_gym.backends import EngineFailureError
from placement_gym.backends.measured import (
    MeasuredBackend,
    StagedRequest,
    TimingProtocol,
    in_flight,
    timing,
)
from placement_gym.backends.measured.in_flight import InFlight, QueueLane, ThreadLane
from placement_gym.backends.measured.throughput import list_streams
from placement_gym.base import UserError
from placement_gym.graph import Units, contract
from placement_gym.hardware import DeviceSpec, usable_cores
from placement_gym.models import Member, load_model
from placement_gym.problem import Problem

TWO = (DeviceSpec("CPU", threads=1), DeviceSpec("CPU_B", plugin="CPU", threads=1))
SPLIT = np.array([0, 0, 1, 1])
BACK = np.array([0, 1, 0, 0])
"""The first device has two submodels."""
ONCE = {"warmup": 0, "repeats": 2, "final_repeats": 2, "final_compiles": 2, "window": 2}


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


def build(devices: tuple[DeviceSpec, ...] = TWO, **protocol: Any) -> MeasuredBackend:
    options = {**ONCE, "objective": "throughput", **protocol}
    return measure_here(
        ov.Core(), load_model(chain()), problem(devices), "auto",
        TimingProtocol(**options),
    )  # fmt: skip


def test_a_split_has_its_requests_and_a_single_device_its_best() -> None:
    backend = build()
    split = backend.evaluate(SPLIT)
    assert (split.error, split.requests, split.streams) == ("", 3, 1)
    assert (split.n_submodels, split.n_submodels_expected) == (2, 2)
    alone = backend.evaluate(np.ones_like(SPLIT))
    assert alone.requests in (1, 2)
    assert worker_of(backend).in_flight.best.keys() == {0, 1}  # the reference device, and this one
    assert build(requests=5).evaluate(SPLIT).requests == 5


def test_finalists_are_compiled_anew_and_measured_side_by_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # rounds that other programs disturb would count for one finalist and not for the other
    monkeypatch.setattr(timing, "find_share", lambda *_: 0.0)
    first, second = build().remeasure([np.zeros_like(SPLIT), SPLIT])
    assert first.reference_ms == second.reference_ms == first.latency_ms
    assert (second.requests, second.n_submodels) == (3, 2)


def test_submodels_of_a_device_that_states_its_threads_take_turns() -> None:
    """HETERO would give each of them a thread of its own, and the device two threads."""
    backend = build()
    assert lanes(backend, SPLIT) == [QueueLane]
    assert lanes(backend, BACK) == [ThreadLane]
    back = backend.evaluate(BACK)
    assert (back.error, back.requests, back.n_submodels) == ("", 3, 3)
    streams = DeviceSpec("CPU", threads=2, properties={"NUM_STREAMS": 2})
    assert lanes(build((streams, TWO[1])), BACK) == [ThreadLane]  # each submodel has two threads
    assert lanes(build((DeviceSpec("CPU"), TWO[1])), BACK) == [QueueLane]  # what the machine has


def lanes(backend: MeasuredBackend, assignment: Any) -> list[type]:
    in_flight = worker_of(backend).compile(assignment).inferences
    assert isinstance(in_flight, InFlight)
    return [type(lane) for lane in in_flight.lanes]


@pytest.mark.parametrize("best", [(2, 2), (2, 4)])
def test_streams_and_requests_of_a_single_device_give_the_most_results(
    best: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = build((DeviceSpec("CPU", threads=4), TWO[1]))

    def scripted(in_flight: InFlight) -> float:
        (lane,) = in_flight.lanes
        assert isinstance(lane, QueueLane)
        streams = int(lane.queue[0].get_compiled_model().get_property("NUM_STREAMS"))
        return 8.0 if (streams, in_flight.requests) == best else 10.0

    monkeypatch.setattr(InFlight, "time_window", scripted)
    assert worker_of(backend).in_flight.find_best(0, 8) == best


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


class Scripted:
    """A lane whose requests end at once, or give the outputs of a script."""

    def __init__(self, *outputs: float) -> None:
        self.outputs, self.n_started = outputs, 0

    def start(self, finish: Any, kept: Any = None, sample: int = 0) -> None:
        if kept is not None:
            kept.append([np.array([self.outputs[self.n_started % len(self.outputs)]])])
        self.n_started += 1
        finish(0.0)

    def wait(self) -> None:
        """All have ended."""


def test_a_window_counts_neither_filling_nor_emptying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three requests in flight: the first three results and the last three are not timed."""
    clock = iter([0.0, 1.0, 100.0, *(100.0 + 2.0 * i for i in range(1, 7)), 500.0, 501.0, 502.0])
    monkeypatch.setattr(in_flight, "perf_counter", lambda: next(clock))
    lane = Scripted()
    requests = InFlight([Member("chain")], [lane], 3, 5)
    assert requests.time_window() == pytest.approx(2000.0)
    assert lane.n_started == 3 + 6 + 3
    assert list(requests.latencies_ms[0]) == [1e3 * (100.0 + 2.0 * i) for i in range(1, 7)]
    assert requests.models_ms() is None  # for models of a union alone
    requests.forget()
    assert not requests.latencies_ms[0]


def test_a_latency_begins_when_a_request_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []

    class Queue:
        def __init__(self, *_: Any) -> None:
            self.set_callback = self.__init__

        def get_idle_request_id(self) -> None:
            log.append("free")

        def start_async(self, _: Any, end: Any) -> None:
            log.append("start")
            end(None)

    monkeypatch.setattr(ov, "AsyncInferQueue", Queue)
    monkeypatch.setattr(in_flight, "perf_counter", lambda: log.append("clock") or 5.0)
    QueueLane(None, 1, [[]], log.append).start(log.append)  # type: ignore[arg-type]
    assert log == ["free", "an inference", "clock", "start", 5.0]


def test_requests_that_disturb_each_other_are_infeasible() -> None:
    def check(*outputs: float) -> None:
        InFlight([Member("chain")], [Scripted(*outputs)], 3, 5).check(1e-4)

    check(1.0)
    with pytest.raises(EngineFailureError, match="requests in flight: outputs differ"):
        check(1.0, 1.0, 1.0, 1.0, 2.0, 1.0)


class Overwriting:
    """A lane whose requests end together, each with what the last one of them computes."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, int]] = []

    def start(self, finish: Any, kept: Any = None, sample: int = 0) -> None:
        self.waiting.append((kept, sample))

    def wait(self) -> None:
        for kept, _ in self.waiting:
            kept.append([np.array([float(self.waiting[-1][1])])])
        self.waiting = []


def test_requests_with_different_inputs_show_that_they_overwrite_each_other() -> None:
    def make(n_samples: int) -> InFlight:
        return InFlight([Member("chain")], [Overwriting()], 2, 4, n_samples, n_samples)

    make(1).check(1e-4)  # all compute the same
    with pytest.raises(EngineFailureError, match=r"in flight: .*one at a time they do not"):
        make(2).check(1e-4)
    assert [float(array[0]) for array in make(3).outputs()] == [0.0, 1.0, 2.0]


def test_generated_inputs_in_flight_differ() -> None:
    backend = build()
    in_flight = worker_of(backend).compile(SPLIT).inferences
    assert isinstance(in_flight, InFlight)
    (lane,) = in_flight.lanes
    assert isinstance(lane, QueueLane)
    values = {inputs[0].tobytes() for inputs in lane.samples}
    assert (len(values), in_flight.n_samples, in_flight.n_compared) == (3, 3, 1)
    assert [array.shape for array in in_flight.outputs()] == [(1, 8)]


def test_a_placement_is_checked_with_all_its_requests_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend, read = build(), InFlight.run_and_read
    backend.check_reference()

    def disturb(in_flight: InFlight, samples: Any) -> list[Any]:
        first, *others = read(in_flight, samples)
        return [first, *([array + 1.0 for array in outputs] for outputs in others)]

    monkeypatch.setattr(InFlight, "run_and_read", disturb)
    found = backend.evaluate(SPLIT)
    assert found.error.startswith("requests in flight: outputs differ")
    assert not found.feasible


def test_a_stage_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = build()
    backend.check_reference()

    class Broken:
        def wait(self) -> None:
            raise RuntimeError("Exception from plugin.cpp:1:\nthe plugin is tired")

        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

    start = StagedRequest.__init__

    def break_second(request: StagedRequest, model: Any) -> None:
        start(request, model)
        request.requests[1] = Broken()

    monkeypatch.setattr(StagedRequest, "__init__", break_second)
    failed = backend.evaluate(BACK)
    assert failed.error == "stage 1 on CPU_B failed: the plugin is tired"
    assert (failed.feasible, failed.requests) == (False, 0)
    assert failed.latency_ms == 10 * backend.reference_ms


def test_objectives_share_neither_references_nor_sessions() -> None:
    backend = build()
    latency = backend.with_protocol(TimingProtocol(warmup=0, repeats=2))
    assert latency.session is not backend.session
    assert backend.with_protocol(backend.protocol).session is backend.session
    assert latency.evaluate(SPLIT).requests is None
    backend.evaluate(SPLIT)
    own = worker_of(backend).references["throughput"]
    backend.protocol = latency.protocol  # as a worker does for each request
    assert worker_of(backend).reference is not own
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


def test_sequences_run_on_states_of_their_own_in_threads_as_many_as_devices() -> None:
    env = make(make_decoder(), TWO, objective="throughput", scenario="chat-3-2")
    assignment = (np.arange(env.problem.n_units) >= 9).astype(np.int64)
    in_flight = worker_of(env.backend.inner).compile(assignment).inferences
    assert in_flight.requests == 2
    assert [type(lane) for lane in in_flight.lanes] == [ThreadLane]
    in_flight.check(1e-4)  # each request runs twice


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
    assert (info["error"], info["requests"]) == ("", 2)
    assert "prefill_ms" not in info
