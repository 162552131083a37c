# White-box tests of backends.measured, workloads
"""Models with state, measured: every run is a whole scenario."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from foreign_models import make_decoder
from numpy.typing import NDArray
from openvino import opset13 as ops
from testbed import build_here, worker_of

import placement_gym
from placement_gym.backends import Measurement
from placement_gym.backends.measured import MeasuredBackend, relative_error
from placement_gym.backends.measured.candidate import Compilation, join_rounds
from placement_gym.backends.measured.engine import pack, unpack
from placement_gym.deployment import evaluate_placement, plan
from placement_gym.graph import extract
from placement_gym.models import ModelSpec, load_model
from placement_gym.problem import Placement
from placement_gym.solvers import propose_prefixes
from placement_gym.workloads import Conversation, draw
from placement_gym.workloads.runs import StepsRun


class FakeRequest:
    """Notes what is asked of it; its output is the number of inferences since the last reset."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.state = 0

    def reset_state(self) -> None:
        self.calls.append("reset")
        self.state = 0

    def infer(self, inputs: dict[int, Any]) -> None:
        self.calls.append(inputs[0])
        self.state += 1

    @property
    def output_tensors(self) -> list[Any]:
        return [ov.Tensor(np.array([self.state]))]


def decoder(name: str = "gpt", scenario: str = "chat-16-32", **kwargs: Any) -> MeasuredBackend:
    model = make_decoder() if name == "decoder" else name
    return build_here(ModelSpec(model, scenario=scenario, **kwargs))


def halves(backend: MeasuredBackend) -> NDArray[np.int64]:
    n = backend.problem.n_units
    return (np.arange(n) >= n // 2).astype(np.int64)


def test_every_run_begins_with_an_empty_state() -> None:
    request = FakeRequest()
    run = StepsRun(Conversation().find_parts, request, [[["prompt"], ["token"]]], lambda step: None)
    run.run()
    assert request.calls == ["reset", "prompt", "token"] * 2


def test_outputs_are_those_of_every_step() -> None:
    steps: Any = [["prompt"], ["token"], ["token"]]
    run = StepsRun(Conversation().find_parts, FakeRequest(), [steps], lambda step: None)
    assert [int(output[0]) for output in run.outputs()] == [1, 2, 3]


def test_phases_are_timed_since_the_warm_up() -> None:
    run = StepsRun(Conversation().find_parts, FakeRequest(), [[[0], [1], [2]]], lambda step: None)
    run.forget()
    run.times += [np.array(ms) for ms in ([9.0, 1.0, 2.0], [10.0, 3.0, 4.0], [11.0, 7.0, 8.0])]
    assert run.parts_ms() == {"prefill_ms": 10.0, "token_ms": 3.5}
    run.forget()
    assert not run.times


def test_phases_of_a_finalist_are_medians_over_its_compilations() -> None:
    plain = Compilation(1, 1, 0, 0, (0,), 0.0)
    rounds = [replace(plain, parts_ms={"a_ms": ms, "b_ms": ms / 2}) for ms in (8.0, 2.0, 4.0)]
    assert join_rounds(rounds) == replace(plain, parts_ms={"a_ms": 4.0, "b_ms": 2.0})
    assert join_rounds([plain, plain]) == plain


def test_inputs_follow_the_scenario() -> None:
    prefill, token, last = draw(Conversation(5, 2), load_model("gpt"))
    assert [array.shape for array in prefill] == [(1, 5)] * 3
    assert [array.shape for array in token] == [(1, 1), (1, 6), (1, 1)]
    assert prefill[2].tolist() == [[0, 1, 2, 3, 4]]
    assert last[2].tolist() == [[6]]
    assert last[1].tolist() == [[1] * 7]


@pytest.mark.parametrize(
    ("name", "shape", "kind"),
    [
        ("position", [], ov.Type.i64),
        ("beamformed_audio", [1, 16], ov.Type.f32),
        ("beam_scores", [2, 16], ov.Type.i32),
        ("position_offsets", [1, 30], ov.Type.i32),
        ("unmasked_image", [1, 16], ov.Type.f32),
    ],
)
def test_an_input_is_not_guessed_from_a_part_of_its_name(
    name: str, shape: list[int], kind: ov.Type
) -> None:
    x = ops.parameter(shape, kind, name=name)
    first, last = (
        np.asarray(values)
        for (values,) in draw(Conversation(4, 4), ov.Model([ops.result(x)], [x], "m"))[:5:4]
    )
    assert first.shape == last.shape == tuple(shape)
    assert not (first == 1).all() or not shape
    assert first.max() <= 1
    assert last.max() <= 1


def test_names_of_export_tools_hold_in_unions_and_tensorflow() -> None:
    names = ("a/attention_mask", "input_mask:0", "position_ids", "cache_position", "beam_idx")
    shapes = ([1, -1], [1, -1], [3, 1, -1], [-1], [2])
    inputs = [
        ops.parameter(shape, np.int64, name=name) for name, shape in zip(names, shapes, strict=True)
    ]
    past = ops.read_value(np.zeros((1, 0), np.float32), "past", np.float32, [1, -1])
    model = ov.Model([ops.result(one) for one in (*inputs, past)], inputs, "m")
    _, token = draw(Conversation(4, 1), model)
    values = [np.asarray(one).tolist() for one in token]
    assert values == [[[1] * 5], [[1] * 5], [[[4]]] * 3, [4], [0, 1]]


def test_parts_of_a_measurement_are_kept() -> None:
    phased = Measurement(1.0, 2.0, 1.5, parts_ms={"prefill_ms": 0.5, "token_ms": 0.25})
    assert unpack(pack(phased)) == phased


@pytest.mark.slow
def test_32_tokens_on_two_devices_are_those_of_one() -> None:
    backend = decoder()
    worker = worker_of(backend)
    split = worker.compile(halves(backend))
    assert split.compilation.n_submodels == split.compilation.n_submodels_expected > 1
    held = split.compilation.memory_bytes
    assert min(held) > 1e6
    expected, found = worker.reference.inferences.outputs(), split.inferences.outputs()
    assert len(found) == 33
    assert relative_error(found, expected) < 1e-5
    worst = max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))
    assert worst < 1e-5
    backend.close()


@pytest.mark.slow
def test_placement_that_forgets_the_past_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = decoder(scenario="chat-4-2")
    backend.check_reference()
    assert worker_of(backend).reference_outputs.separate is not None  # before the inputs change
    steps = [list(step) for step in worker_of(backend).host.samples[0]]
    steps[0][0] = 1 + steps[0][0]
    monkeypatch.setattr(worker_of(backend).host, "samples", [steps])
    measured = backend.evaluate(halves(backend))
    assert "differ" in measured.error
    assert np.isnan(measured.parts_ms["token_ms"])
    backend.close()


@pytest.mark.slow
def test_random_placements_of_units_run_and_part_no_state() -> None:
    backend = decoder(scenario="chat-4-2", granularity="op")
    rng = np.random.default_rng(0)
    for _ in range(2):
        measured = backend.evaluate(rng.integers(0, 2, backend.problem.n_units))
        assert not measured.error
        assert measured.n_submodels == measured.n_submodels_expected
    backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt-int8", "gpt-int4"])
def test_compressed_decoder_runs_split(name: str) -> None:
    backend = decoder(name, "chat-4-2")
    assert not backend.evaluate(halves(backend)).error
    backend.close()


@pytest.mark.slow
def test_exported_form_of_a_decoder_runs_in_any_parts() -> None:
    backend = decoder("decoder", "chat-5-3", granularity="op")
    rng, n = np.random.default_rng(0), backend.problem.n_units
    scattered = [rng.integers(0, 2, n) for _ in range(3)]
    for assignment in [*propose_prefixes(backend.problem)[5::18], *scattered]:
        measured = backend.evaluate(assignment)
        assert not measured.error
        assert measured.n_submodels == measured.n_submodels_expected
    backend.close()


def test_batch_of_a_model_with_state_is_one_unless_it_is_bound() -> None:
    for shapes, batch in ((None, 1), ({"input_ids": [2, "?"]}, 2)):
        model = load_model(make_decoder(), shapes=shapes)
        assert [str(port.get_partial_shape()[0]) for port in model.inputs] == [str(batch)] * 3
        graph = extract(model, "raw", "chat-5-3")
        held = dict(zip(graph.types, graph.weight_bytes.tolist(), strict=True))
        assert held["ReadValue"] == batch * 2 * 8 * (5 + 3) * 4


@pytest.mark.slow
def test_environment_tells_the_phases() -> None:
    env = gym.make(
        "DevicePlacement-v0",
        model="gpt",
        devices="cpu-testbed",
        scenario="chat-8-4",
        warmup=1,
        repeats=2,
    )
    env.reset(seed=0)
    n = env.unwrapped.problem.n_units  # type: ignore[attr-defined]
    *_, info = env.step((np.arange(n) >= n // 2).astype(np.int64))
    assert not info["error"]
    assert info["prefill_ms"] + 4 * info["token_ms"] == pytest.approx(info["latency_ms"], rel=0.5)
    env.close()


@pytest.mark.slow
def test_plan_of_a_decoder_can_be_evaluated_and_compiled(tmp_path: Path) -> None:
    document = plan(
        "gpt", "cpu-testbed", granularity="colocated", out=tmp_path, scenario="chat-4-2", quiet=True
    )
    assert all(row["token_ms"] > 0 for row in document["rows"] if not row["error"])
    assert json.loads(Path(document["file"]).read_text())["scenario"] == "chat-4-2"
    again = evaluate_placement("gpt", document["file"])
    assert again["scenario"] == "chat-4-2"
    assert again["token_ms"] > 0
    placement = Placement.load(document["file"])
    compiled = placement_gym.compile_model(ov.Core(), load_model("gpt"), placement)
    assert compiled.outputs
