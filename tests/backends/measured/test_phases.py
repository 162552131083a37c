# White-box tests of workloads
"""Two placements of a model with state: what is handed over, and what is timed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import openvino as ov
import pytest
from testbed import build_here, worker_of

import placement_gym
from placement_gym.backends.measured import MeasuredBackend, relative_error
from placement_gym.base import IntArray, UserError
from placement_gym.models import ModelSpec, load_model
from placement_gym.problem import Placement
from placement_gym.workloads import Conversation, PhasedRun, draw
from placement_gym.workloads.runs import PhasedRequest

SCENARIO = "chat-6-8"


class FakeRequest:
    """Its state is the list of what it was given."""

    def __init__(self, order: int = 1) -> None:
        self.states = [SimpleNamespace(name=name, state=[]) for name in "ab"[::order]]

    @property
    def output_tensors(self) -> list[Any]:
        return [SimpleNamespace(data=np.array(self.held()["b"]))]

    def held(self) -> dict[str, list[int]]:
        return {state.name: state.state for state in self.states}

    def query_state(self) -> list[Any]:
        return self.states

    def reset_state(self) -> None:
        for state in self.states:
            state.state = []

    def infer(self, inputs: dict[int, int]) -> None:
        for state in self.states:
            sign = 1 if state.name == "a" else -1
            state.state = [*state.state, sign * inputs[0]]


def phased() -> tuple[PhasedRequest, Any, Any]:
    prefill, decode = FakeRequest(), FakeRequest(order=-1)
    return PhasedRequest(prefill, decode), prefill, decode  # type: ignore[arg-type]


def test_tokens_run_on_the_state_of_the_prompt_by_name() -> None:
    request, prefill, decode = phased()
    for value in (1, 2, 3):
        request.infer({0: value})
    assert prefill.held() == {"a": [1], "b": [-1]}
    assert decode.held() == {"a": [1, 2, 3], "b": [-1, -2, -3]}
    assert request.output_tensors[0].data.tolist() == [-1, -2, -3]


def test_a_reset_request_begins_with_the_prompt_again() -> None:
    request, prefill, decode = phased()
    for value in (1, 2):
        request.infer({0: value})
    request.reset_state()
    request.infer({0: 7})
    assert prefill.held()["a"] == [7]
    assert decode.held()["a"] == []


def test_handing_over_is_no_part_of_a_token() -> None:
    request, *_ = phased()
    run = PhasedRun(
        Conversation().find_parts,
        request,
        [[[np.array(1)], [np.array(2)], [np.array(3)]]],
        lambda step: None,
    )
    run.forget()
    run.times += [np.array([9.0, 1.0, 2.0])]
    run.handovers_ms += [0.5]
    assert [*run.parts_ms().values()] == [9.0, 1.5, 0.5]
    request.handover_ms = 4.0
    request.copy_state = lambda: None  # type: ignore[method-assign]
    run.forget()
    run.run()
    assert run.times[0][1] < 0.0  # the four that were not spent are taken off
    assert run.parts_ms()["handover_ms"] == 4.0


def decoder() -> MeasuredBackend:
    return build_here(ModelSpec("gpt", "fused", scenario=SCENARIO))


def halves(n: int) -> IntArray:
    return (np.arange(n) >= n // 2).astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("swapped", [False, True])
def test_every_step_is_that_of_one_device(swapped: bool) -> None:
    backend = decoder()
    n = backend.problem.n_units
    pair = np.stack([halves(n), 1 - halves(n) if swapped else np.ones(n, np.int64)])
    worker = worker_of(backend)
    candidate = worker.compile(pair)
    expected, found = worker.reference.inferences.outputs(), candidate.inferences.outputs()
    assert len(found) == 9
    assert relative_error(found, expected) < 1e-5
    held = [backend.problem.memory_bytes(one) for one in pair]
    assert candidate.compilation.memory_bytes == tuple(sum(held).tolist())
    assert candidate.compilation.n_submodels == (4 if swapped else 3)
    candidate.run()
    assert candidate.summarize().parts_ms["handover_ms"] > 0.0
    backend.close()


@pytest.mark.slow
def test_tokens_on_another_state_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def confuse(request: PhasedRequest) -> None:
        state, *_ = request.prefill.query_state()
        for one in request.decode.query_state():
            one.state = state.state

    backend = decoder()
    monkeypatch.setattr(PhasedRequest, "copy_state", confuse)
    pair = np.stack([backend.problem.single(0), backend.problem.single(1)])
    with pytest.raises(RuntimeError, match="differ"):
        worker_of(backend).compile_and_check(pair)
    backend.close()


@pytest.mark.slow
def test_traffic_is_that_of_the_prompt_and_that_of_the_tokens() -> None:
    backend = decoder()
    n = backend.problem.n_units
    split, alone = halves(n), np.zeros(n, np.int64)
    whole = worker_of(backend).compile(split).compilation
    parts = [
        worker_of(backend).compile(np.stack(pair)).compilation
        for pair in ((split, alone), (alone, split))
    ]
    assert sum(one.transfer_bytes for one in parts) == whole.transfer_bytes
    assert [one.n_transfers for one in parts] == [whole.n_transfers] * 2
    assert parts[1].transfer_bytes > 0
    backend.close()


@pytest.mark.slow
def test_a_program_of_its_own_decodes_under_two_placements() -> None:
    model, problem = load_model("gpt"), decoder().problem
    split = Placement.from_assignment(problem, halves(problem.n_units))
    alone = Placement.from_assignment(problem, problem.single(1))
    compiled = placement_gym.compile_phases(ov.Core(), model, split, alone)
    requests = [compiled.create_infer_request() for _ in range(2)]
    plain = ov.Core().compile_model(
        model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    )
    reference = plain.create_infer_request()
    for step in draw(Conversation.parse(SCENARIO), model):
        expected = reference.infer(dict(enumerate(step)))[0]
        for request in requests:  # each has a state of its own
            found = request.infer(dict(enumerate(step)))[0]
            assert relative_error([found], [expected]) < 1e-5


def test_a_model_without_state_has_no_phases() -> None:
    placement: Any = None
    with pytest.raises(UserError, match="no phases"):
        placement_gym.compile_phases(ov.Core(), load_model("tiny"), placement, placement)
