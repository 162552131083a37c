"""Pipelines of real models: outputs are those of one device."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
import pytest
from testbed import (
    CHESSBOARD,
    N_TINY,
    TINY_SPLITS,
    halves,
    known_model,
    make,
    placement,
    plain_outputs,
    worst_relative,
)

from placement_gym import DeviceSpec, Pipeline, Placement, StageError
from placement_gym.backends.pipeline.inputs import InputReader
from placement_gym.backends.pipeline.stage import Stage, count_streams, with_streams
from placement_gym.base.errors import CompileError, UserError
from placement_gym.models import load
from placement_gym.workloads.conversation import Conversation
from placement_gym.workloads.samples import sample_inputs

TWO = (DeviceSpec("CPU", threads=1), DeviceSpec("CPU_B", plugin="CPU", threads=1))
TIMEOUT_S = 60.0


def pipeline(name: str, placed: Any, **options: Any) -> Pipeline:
    return Pipeline(ov.Core(), known_model(name), placement(name, placed, TWO), **options)


@pytest.mark.parametrize("placed", TINY_SPLITS)
def test_outputs_are_those_of_one_device(placed: list[int]) -> None:
    with pipeline("tiny", placed) as running:
        assert running.requests == len(running.stages) + 1
        inputs = sample_inputs(known_model("tiny"))
        found = list(running.map([inputs] * 3, TIMEOUT_S))
    for outputs in found:
        assert worst_relative(outputs, plain_outputs("tiny")) < 1e-5


def test_each_request_gets_the_outputs_of_its_own_inputs() -> None:
    rng = np.random.default_rng(0)
    images = [rng.random((1, 3, 64, 64), dtype=np.float32) for _ in range(6)]
    f32 = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.Core().compile_model(known_model("tiny"), "CPU", f32)
    expected = [compiled(image)[0].copy() for image in images]
    assert worst_relative(expected[:1], expected[1:2]) > 1e-3
    with pipeline("tiny", CHESSBOARD) as running:
        forms: list[Any] = [images[0], [images[1]], {"image": images[2]}, {0: images[3]}]
        futures = [running.submit(form) for form in forms]
        reused = images[4].copy()
        futures.append(running.submit(reused))
        reused[:] = 0  # inputs were copied
        for future, right in zip(futures, expected, strict=False):
            assert worst_relative(future.result(TIMEOUT_S), [right]) < 1e-4


def test_results_are_not_overwritten_by_later_requests() -> None:
    ones, zeros = np.ones((1, 3, 64, 64), np.float32), np.zeros((1, 3, 64, 64), np.float32)
    with pipeline("tiny", halves("tiny"), requests=1) as running:
        (first,) = running.submit(ones).result(TIMEOUT_S)
        kept = first.copy()
        (second,) = running.submit(zeros).result(TIMEOUT_S)
    assert np.array_equal(first, kept)
    assert not np.array_equal(first, second)


def test_stages_of_one_device_take_turns() -> None:
    with pipeline("tiny", CHESSBOARD) as running:
        turns: dict[str, set[int]] = {}
        for stage in running.stages:
            turns.setdefault(stage.device, set()).add(id(stage.turn))
        assert {len(of_device) for of_device in turns.values()} == {1}
        assert len({id(stage.turn) for stage in running.stages}) == 2


def test_an_inference_waits_for_the_turn_of_its_device() -> None:
    log: list[str] = []

    class Turn:
        def __enter__(self) -> None:
            log.append("begin")

        def __exit__(self, *error: object) -> None:
            log.append("end")

    class Request:
        def infer(self) -> None:
            log.append("infer")

    request: Any = Request()
    Stage("stage 0 on CPU", "CPU", (), None, (), [request], turn=Turn()).run(0, [], [])
    assert log == ["begin", "infer", "end"]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"imgae": np.zeros((1, 3, 64, 64))}, "did you mean 'image'"),
        ({}, "'image' is missing"),
        (np.zeros((1, 3, 32, 64), np.float32), "has shape"),
        (np.zeros((1, 3, 64, 64), np.complex64), "pass that, not complex64"),
        ([np.zeros(1), np.zeros(1)], "1 inputs, 2 were given"),
    ],
)
def test_wrong_inputs_are_refused_before_any_stage(inputs: Any, said: str) -> None:
    with pipeline("tiny", [0] * N_TINY) as running, pytest.raises(UserError, match=said):
        running.submit(inputs)


def test_inputs_are_named_by_name_index_or_port() -> None:
    model = known_model("tiny")
    reader, (image,) = InputReader(model), sample_inputs(model)
    for key in ("image", 0, np.int64(0), model.inputs[0]):
        (tensor,) = reader.read({key: image})
        assert np.array_equal(tensor.data, image)


def test_a_stage_of_the_engine_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pipeline("tiny", halves("tiny")) as running:
        inputs = sample_inputs(known_model("tiny"))

        class Broken:
            def __getattr__(self, name: str) -> Any:
                raise RuntimeError("Exception from plugin.cpp:1:\ndevice lost")

        stage = running.stages[1]
        kept, stage.requests[:] = list(stage.requests), [Broken()] * running.requests
        with pytest.raises(StageError, match="stage 1 on CPU_B failed: device lost"):
            running.submit(inputs).result(TIMEOUT_S)
        stage.requests[:] = kept
        assert (
            worst_relative(running.submit(inputs).result(TIMEOUT_S), plain_outputs("tiny")) < 1e-5
        )


def test_a_stage_that_openvino_refuses_is_named() -> None:
    with pytest.raises(CompileError, match="refused stage 0 on CPU"):
        pipeline("tiny", halves("tiny"), config={"NO_SUCH_PROPERTY": 1})


def test_requests_are_at_least_one() -> None:
    with pytest.raises(UserError, match="requests"):
        pipeline("tiny", halves("tiny"), requests=0)


def test_streams_of_a_device_are_workers_of_its_stages() -> None:
    assert count_streams(TWO[0]) == 1
    assert count_streams(DeviceSpec("CPU", properties={"NUM_STREAMS": "3"})) == 3
    assert count_streams(DeviceSpec("CPU", properties={"NUM_STREAMS": "AUTO"})) == 1
    assert count_streams(DeviceSpec("GPU")) == 1


def test_a_device_alone_has_its_streams_and_a_queue_of_its_own() -> None:
    devices = with_streams(DeviceSpec("CPU", threads=2), 2), TWO[1]
    alone = placement("tiny", [0] * N_TINY, devices)
    with Pipeline(ov.Core(), known_model("tiny"), alone) as running:
        (stage,) = running.stages
        assert int(stage.compiled.get_property("NUM_STREAMS")) == 2
        assert (running.requests, stage.workers) == (4, 4)


def decoder() -> tuple[ov.Model, Placement]:
    env = make("gpt", TWO, scenario="chat-5-3")
    n = env.problem.n_units
    assignment = (np.arange(n) >= n // 2).astype(np.int64)
    return load("gpt"), Placement.of(env.problem, assignment)


@pytest.mark.slow
def test_sequences_in_flight_keep_states_of_their_own() -> None:
    model, placed = decoder()
    steps = Conversation(5, 3).sample_inputs(model)
    other = [[inputs[0] * 0 + 1, *inputs[1:]] for inputs in steps]
    f32 = {"INFERENCE_PRECISION_HINT": "f32"}
    request = ov.Core().compile_model(model, "CPU", f32).create_infer_request()
    expected = []
    for sequence in (steps, other):
        request.reset_state()
        for inputs in sequence:
            expected.append(request.infer(dict(enumerate(inputs)))[0].copy())
    with Pipeline(ov.Core(), model, placed) as running:
        with pytest.raises(UserError, match="submit_sequence"):
            running.submit(steps[0])
        for _ in range(3):
            futures = [running.submit_sequence(sequence) for sequence in (steps, other)]
            found = [step[0] for future in futures for step in future.result(TIMEOUT_S)]
            assert worst_relative(found, expected) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert-8", "resnet", "inception"])
def test_outputs_of_large_models_are_those_of_one_device(name: str) -> None:
    rng = np.random.default_rng(0)
    n = len(halves(name))
    inputs = sample_inputs(known_model(name))
    for placed in (halves(name), rng.integers(0, 2, n).tolist()):
        with pipeline(name, placed) as running:
            for outputs in running.map([inputs] * 3, TIMEOUT_S):
                assert worst_relative(outputs, plain_outputs(name)) < 1e-4
