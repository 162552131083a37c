# White-box tests of backends.measured
"""Placements in stages, without HETERO: outputs are those of one device."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Semaphore
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops
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

from placement_gym.backends.measured import StagedModel, StagedRequest, compile_cut
from placement_gym.backends.measured.stages import Stage
from placement_gym.base import CompileError, UserError
from placement_gym.deployment import compile_stages
from placement_gym.graph import extract
from placement_gym.hardware import DeviceSpec
from placement_gym.models import InputReader, load_model, read_values
from placement_gym.problem import Placement
from placement_gym.workloads import Conversation, draw, sample_inputs

TWO = (DeviceSpec("CPU", threads=1), DeviceSpec("CPU_B", plugin="CPU", threads=1))


def compile_staged(name: str, placed: Any, **options: Any) -> StagedModel:
    return compile_stages(ov.Core(), known_model(name), placement(name, placed, TWO), **options)


def read(request: StagedRequest) -> list[Any]:
    return [read_values(tensor) for tensor in request.output_tensors]


@pytest.mark.parametrize("placed", TINY_SPLITS)
def test_outputs_are_those_of_one_device(placed: list[int]) -> None:
    request = compile_staged("tiny", placed).create_infer_request()
    request.infer(sample_inputs(known_model("tiny")))
    first = read(request)
    assert worst_relative(first, plain_outputs("tiny")) < 1e-5
    request.infer()  # keeps the inputs
    assert worst_relative(read(request), first) == 0.0


def test_each_request_gets_the_outputs_of_its_own_inputs() -> None:
    rng = np.random.default_rng(0)
    images = [rng.random((1, 3, 64, 64), dtype=np.float32) for _ in range(5)]
    f32 = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.Core().compile_model(known_model("tiny"), "CPU", f32)
    expected = [compiled(image)[0].copy() for image in images]
    assert worst_relative(expected[:1], expected[1:2]) > 1e-3
    staged = compile_staged("tiny", CHESSBOARD)
    forms: list[Any] = [images[0], [images[1]], {"image": images[2]}, {0: images[3]}, images[4]]

    def run(form: Any) -> list[Any]:
        request = staged.create_infer_request()
        request.infer(form)
        return read(request)

    with ThreadPoolExecutor(3) as threads:
        for outputs, right in zip(threads.map(run, forms), expected, strict=True):
            assert worst_relative(outputs, [right]) < 1e-4


def test_inputs_are_copied() -> None:
    ones = np.ones((1, 3, 64, 64), np.float32)
    request = compile_staged("tiny", halves("tiny")).create_infer_request()
    with pytest.raises(UserError, match="'image' is missing"):
        request.infer()
    request.infer(ones)
    first = read(request)
    ones[:] = 0
    request.infer()
    assert worst_relative(read(request), first) == 0.0


def test_stages_of_one_device_take_turns() -> None:
    turns: dict[str, set[int]] = {}
    for stage in compile_staged("tiny", CHESSBOARD).stages.values():
        turns.setdefault(stage.name.partition(" on ")[2], set()).add(id(stage.turn))
    assert {len(of_device) for of_device in turns.values()} == {1}
    assert len(set.union(*turns.values())) == 2


def test_requests_of_dynamic_size_do_not_overwrite_each_other() -> None:
    """OpenVINO 2026.4 gives requests of a Concat of inputs one memory for their outputs."""
    image = ops.parameter([1, 2, -1, -1], np.float32, name="image")
    image.output(0).get_tensor().set_names({"image"})
    joined = ops.concat([ops.relu(image), ops.abs(image)], 1, name="joined")
    model = load_model(
        ov.Model([ops.result(ops.tanh(joined))], [image], "skip"),
        inputs={"image": np.ones((1, 2, 4, 4), np.float32)},
    )
    graph = extract(model, inputs={"image": np.ones((1, 2, 4, 4), np.float32)})
    on = np.array([name == "joined" for name in graph.names], dtype=np.int64)
    (staged,) = compile_cut(ov.Core(), model, graph, on, TWO)
    first, second = (staged.create_infer_request() for _ in range(2))
    (number,) = (n for n, stage in staged.stages.items() if len(stage.sources) == 2)
    first.infer(np.full((1, 2, 20, 24), 0.5, np.float32))
    kept = first.requests[number].get_output_tensor(0)
    before = np.array(kept.data)
    second.infer(np.full((1, 2, 33, 18), 0.25, np.float32))
    np.testing.assert_array_equal(kept.data, before)


def test_as_many_inferences_as_streams_run_on_a_device_and_wait_for_it_in_each_stage() -> None:
    devices = TWO[0].with_streams(2), TWO[1]
    placed = placement("tiny", CHESSBOARD, devices)
    stages = compile_stages(ov.Core(), known_model("tiny"), placed).stages.values()
    assert len({id(stage.queue) for stage in stages}) == len(stages) > 2
    for stage in stages:
        streams = 2 if stage.name.endswith(" on CPU") else 1
        for semaphore in (stage.queue, stage.turn):
            assert isinstance(semaphore, Semaphore)
            entered = [semaphore.acquire(blocking=False) for _ in range(3)]
            assert entered.count(True) == streams
            semaphore.release(streams)


def test_an_inference_waits_in_its_stage_and_then_for_its_device() -> None:
    log: list[str] = []

    @contextmanager
    def hold(name: str) -> Iterator[None]:
        log.append(name)
        yield
        log.append(f"end of {name}")

    class Compiled:
        model_outputs = ()

        def create_infer_request(self) -> Any:
            return self

        def start_async(self) -> None:
            log.append("start")

        def wait(self) -> None:
            log.append("wait")

    compiled, reader = Compiled(), None
    stage = Stage("stage 0 on CPU", compiled, (), hold("turn"), hold("queue"))  # type: ignore[arg-type]
    StagedModel({0: stage}, (), (), reader).create_infer_request().infer()  # type: ignore[arg-type]
    assert log == ["queue", "turn", "start", "wait", "end of turn", "end of queue"]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"imgae": np.zeros((1, 3, 64, 64))}, "did you mean 'image'"),
        ({}, "'image' is missing"),
        (np.zeros((1, 3, 32, 64), np.float32), "has shape"),
        (np.zeros((1, 3, 64, 64), np.complex64), "pass this type, not complex64"),
        ([np.zeros(1), np.zeros(1)], "1 inputs, not 2"),
    ],
)
def test_wrong_inputs_are_refused_before_any_stage(inputs: Any, said: str) -> None:
    request = compile_staged("tiny", [0] * N_TINY).create_infer_request()
    with pytest.raises(UserError, match=said):
        request.infer(inputs)


def test_inputs_are_named_by_name_index_or_port() -> None:
    model = known_model("tiny")
    reader, (image,) = InputReader(model), sample_inputs(model)
    for key in ("image", 0, np.int64(0), model.inputs[0]):
        (tensor,) = reader.read({key: image})
        assert np.array_equal(tensor.data, image)


def test_a_stage_that_openvino_refuses_is_named() -> None:
    with pytest.raises(CompileError, match="refused stage 0 on CPU"):
        compile_staged("tiny", halves("tiny"), config={"NO_SUCH_PROPERTY": 1})


def test_streams_of_a_device() -> None:
    assert TWO[0].streams == 1
    assert DeviceSpec("CPU", properties={"NUM_STREAMS": "3"}).streams == 3
    assert DeviceSpec("CPU", properties={"NUM_STREAMS": "AUTO"}).streams == 1
    assert DeviceSpec("GPU").streams == 1
    assert TWO[0].with_streams(2).streams == 2


def decoder() -> tuple[ov.Model, Placement]:
    env = make("gpt", TWO, scenario="chat-5-3")
    n = env.problem.n_units
    assignment = (np.arange(n) >= n // 2).astype(np.int64)
    return load_model("gpt"), Placement.from_assignment(env.problem, assignment)


@pytest.mark.slow
def test_sequences_side_by_side_keep_states_of_their_own() -> None:
    model, placed = decoder()
    steps = draw(Conversation(5, 3), model)
    other = [[inputs[0] * 0 + 1, *inputs[1:]] for inputs in steps]

    def run(request: Any, sequence: Any) -> list[Any]:
        found = []
        request.reset_state()
        for inputs in sequence:
            request.infer(dict(enumerate(inputs)))
            found.append(read_values(request.output_tensors[0]))
        return found

    f32 = {"INFERENCE_PRECISION_HINT": "f32"}
    alone = ov.Core().compile_model(model, "CPU", f32).create_infer_request()
    expected = [*run(alone, steps), *run(alone, other)]
    staged = compile_stages(ov.Core(), model, placed)
    requests = [staged.create_infer_request() for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        for _ in range(3):
            found = [*threads.map(run, requests, (steps, other))]
            assert worst_relative([*found[0], *found[1]], expected) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert-8", "resnet", "inception"])
def test_outputs_of_large_models_are_those_of_one_device(name: str) -> None:
    rng = np.random.default_rng(0)
    for placed in (halves(name), rng.integers(0, 2, len(halves(name))).tolist()):
        request = compile_staged(name, placed).create_infer_request()
        request.infer(sample_inputs(known_model(name)))
        assert worst_relative(read(request), plain_outputs(name)) < 1e-4
