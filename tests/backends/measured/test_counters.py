# White-box tests of backends.measured
"""Counters of a device, led back to the operators of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain, cycle, repeat
from types import SimpleNamespace
from typing import Any

import numpy as np
import openvino as ov
import pytest
from by_hand import made_graph
from openvino import opset13 as ops
from testbed import backend

from placement_gym.backends.measured import counters
from placement_gym.backends.measured.counters import (
    CountedRequest,
    describe_unexplained,
    give_to_operators,
    time_primitives,
)
from placement_gym.base import EngineError
from placement_gym.graph import OpGraph
from placement_gym.hardware import DeviceSpec

HOUR_US = 3_600_000_000


def convolutions() -> OpGraph:
    """Two convolutions, of which the second has three times the FLOPs, and their end."""
    graph = made_graph(3, [(0, [1]), (1, [2])])
    names = ("conv0", "conv1", "fc")
    return replace(
        graph,
        names=names,
        members=(("conv0", "bias0"), ("conv1",), ("fc",)),
        flops=np.array([100.0, 300.0, 0.0]),
    )


@pytest.mark.parametrize(
    ("primitive", "fused", "expected"),
    [
        ("conv1", [], [0, 1, 0]),
        ("any", ["conv0", "conv1"], [0, 1, 0]),
        ("bias0", [], [1, 0, 0]),
        ("reorder_input_convolution:conv1", [], [0, 1, 0]),
        ("fc.0", [], [0, 0, 1]),
        ("fc/transpose_b", [], [0, 0, 1]),
        ("Result_35", ["fc.0"], [0, 0, 1]),
    ],
)
def test_a_counter_goes_to_the_operator_it_is_named_after(
    primitive: str, fused: list[str], expected: list[float]
) -> None:
    times, unowned_ms = give_to_operators(convolutions(), {primitive: 1.0}, {primitive: fused})
    assert (times.tolist(), unowned_ms) == (expected, 0.0)


def test_a_counter_of_no_operator_is_spread_by_work_and_said() -> None:
    counted = {"conv0": 1.0, "a_wrong_name:of_conv1": 8.0}
    times, unowned_ms = give_to_operators(convolutions(), counted, {})
    assert times.tolist() == [3.0, 6.0, 0.0]
    assert unowned_ms == 8.0
    assert "89% of the counted 9 ms belong to no operator" in describe_unexplained(9.0, 8.0, 9.0)


def test_counters_that_do_not_explain_the_latency_are_said() -> None:
    assert describe_unexplained(9.0, 0.1, 10.0) == ""
    assert "add up to 5 ms where an inference takes 10 ms" in describe_unexplained(5.0, 0.0, 10.0)


class FakeRequest:
    """A request with two primitives, the second twice as slow as the first.

    Its counters are those of the CPU's plugin, or of the last inference.
    """

    def __init__(self, averaged: bool, times_us: Iterator[int]) -> None:
        self.averaged, self.times_us = averaged, times_us
        self.total_us, self.last_us, self.inferences = 0, 0, 0

    def reset_state(self) -> None:
        """It has none."""

    def infer(self, _: Any) -> None:
        self.last_us = next(self.times_us)
        self.total_us += self.last_us
        self.inferences += 1

    @property
    def profiling_info(self) -> list[Any]:
        unit_us = self.total_us if self.averaged else self.last_us
        n = self.inferences if self.averaged else 1
        return [
            SimpleNamespace(
                node_name=name, real_time=timedelta(microseconds=factor * unit_us % 2**64 // n)
            )
            for name, factor in (("conv0", 1), ("conv1", 2))
        ]


def count(
    times_us: Iterator[int], averaged: bool = True, runs: int = 30, steps: int = 1
) -> dict[str, float]:
    """Primitive -> its counted ms, where each inference takes 400 us by the steady clock."""
    request = CountedRequest(FakeRequest(averaged, times_us), averaged, lambda _: None)  # type: ignore[arg-type]
    now = iter(np.arange(0.0, 1.0, 400e-6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "perf_counter", lambda: next(now))
        latency_ms, times_ms = time_primitives(request, [[]] * steps, runs)
    assert latency_ms == pytest.approx(0.4 * steps)
    return times_ms


def slow_at(*slow: int, us: int = 50_000, rest_us: int = 100) -> Iterator[int]:
    """(endless) us of inferences, of which those at the given indices take longer."""
    return chain([us if i in slow else rest_us for i in range(max(slow) + 1)], repeat(rest_us))


@pytest.mark.parametrize("runs", [8, 30])
@pytest.mark.parametrize("slow", [[0], [0, 9], [0, 7, 8]], ids=str)
def test_a_cold_and_an_interrupted_inference_leave_no_trace(runs: int, slow: Sequence[int]) -> None:
    # within n / b microseconds, as averages over n inferences are whole ones
    expected = {"conv0": pytest.approx(0.1, abs=0.007), "conv1": pytest.approx(0.2, abs=0.007)}
    assert count(slow_at(*slow), runs=runs) == expected


def test_times_of_several_steps_are_added() -> None:
    expected = {"conv0": pytest.approx(0.3, abs=0.02), "conv1": pytest.approx(0.6, abs=0.02)}
    assert count(slow_at(0), steps=3) == expected


def test_counters_of_the_last_inference_are_added_over_steps() -> None:
    prompt_and_tokens = cycle([300, 100, 50])
    expected = {"conv0": pytest.approx(0.45), "conv1": pytest.approx(0.9)}
    assert count(prompt_and_tokens, averaged=False, steps=3) == expected


@pytest.mark.parametrize("step_us", [-HOUR_US, HOUR_US])
def test_a_clock_that_is_set_once_leaves_no_trace(step_us: int) -> None:
    expected = {"conv0": pytest.approx(0.1, abs=0.006), "conv1": pytest.approx(0.2, abs=0.006)}
    assert count(slow_at(0, 15, us=step_us)) == expected


@pytest.mark.parametrize("step_us", [-HOUR_US, HOUR_US])
def test_a_clock_that_is_always_set_gives_no_times_but_an_error(step_us: int) -> None:
    with pytest.raises(EngineError, match="system's clock is being set: measure again"):
        count(repeat(step_us))


def test_counters_of_the_cpu_are_averages_over_all_inferences_of_all_requests() -> None:
    """On which ``CountedRequest`` relies: a newer OpenVINO may differ."""
    rows = ops.parameter([-1, 256], np.float32)
    product = ops.matmul(rows, ops.constant(np.ones((256, 256), np.float32)), False, False)
    model = ov.Model([ops.result(product)], [rows])
    compiled = ov.Core().compile_model(model, "CPU", {"PERF_COUNT": True, "NUM_STREAMS": 1})

    def read(request: ov.InferRequest, n_rows: int) -> timedelta:
        request.infer([np.ones((n_rows, 256), np.float32)])
        return max(primitive.real_time for primitive in request.profiling_info)

    request = compiled.create_infer_request()
    slow = read(request, 4096)
    assert slow > read(request, 0) >= slow // 2
    assert read(compiled.create_infer_request(), 0) >= slow // 3


def test_counters_are_those_of_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    tested = backend(ov.Core(), counter_inferences=1)
    streams: list[Any] = []
    compile_on = counters.compile_on

    def watch(core: ov.Core, model: ov.Model, spec: DeviceSpec, *rest: Any) -> ov.CompiledModel:
        streams.append(spec.streams)
        return compile_on(core, model, spec, *rest)

    monkeypatch.setattr(counters, "compile_on", watch)
    cpu = tested.problem.devices[0].with_streams(2)
    tested.problem = replace(tested.problem, devices=(cpu, *tested.problem.devices[1:]))
    tested.measure_operators(0)
    assert streams == [1]
