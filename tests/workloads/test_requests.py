# White-box tests of workloads
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino as ov
import pytest
from testbed import build_here

from placement_gym.backends.measured import MeasuredBackend
from placement_gym.base import FloatArray
from placement_gym.models import ModelSpec, load_model
from placement_gym.problem import Placement
from placement_gym.problem.costs import analytic
from placement_gym.workloads import Inference, Inputs, draw, make_request
from placement_gym.workloads.request import Shaped


class Twice(Inference):
    """The same inference again: a kind of request that only this file knows."""

    parts = ("again_ms",)
    separable = False

    def list_shapes(self, model: ov.Model) -> Sequence[Shaped]:
        return [Shaped(1.0, None)] * 2

    def find_parts(self, times_ms: FloatArray) -> dict[str, float]:
        return {"again_ms": float(np.median(times_ms[:, 1]))}

    def repeat(self, steps: Sequence[Inputs]) -> Sequence[Inputs]:
        return steps

    def keywords(self) -> dict[str, Any]:
        return {"scenario": "twice"}

    def list_lines(self) -> list[str]:
        return ["twice"]


@draw.register(Twice)
def draw_twice(_: Twice, model: ov.Model, number: int = 0) -> list[Inputs]:
    inputs: list[Inputs] = draw(Inference(), model, number)
    return inputs * 2


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> MeasuredBackend:
    once = Inference.from_model

    def make(model: ov.Model, scenario: str | None, inputs: Any) -> Inference:
        return Twice() if scenario == "twice" else once(model, scenario, inputs)

    monkeypatch.setattr(Inference, "from_model", make)
    return build_here(ModelSpec("tiny", "op", scenario="twice"))


def test_a_new_kind_of_request_is_measured_without_other_code(backend: MeasuredBackend) -> None:
    problem = backend.problem
    split = (np.arange(problem.n_units) % 2).astype(np.int64)
    measured = backend.evaluate(split)
    assert not measured.error
    assert 0.0 < measured.parts_ms["again_ms"] < measured.latency_ms
    assert Placement.from_assignment(problem, split).spec.scenario == "twice"
    assert np.isnan(backend.failure("too large", split).parts_ms["again_ms"])


def test_its_costs_are_sums_over_its_inferences(backend: MeasuredBackend) -> None:
    graph, devices = backend.problem.units.graph, backend.problem.devices
    once = build_here(ModelSpec("tiny", "op")).problem.units.graph
    assert graph.fingerprint() != once.fingerprint()
    double, single = analytic(graph, devices), analytic(once, devices)
    np.testing.assert_allclose(double.operator_ms, 2.0 * single.operator_ms)
    np.testing.assert_allclose(double.transfer_ms, 2.0 * single.transfer_ms)


def test_other_models_run_what_they_ran(backend: MeasuredBackend) -> None:
    assert make_request(load_model("gpt")).keywords() == {"scenario": "chat-64-16"}
    assert make_request(load_model("tiny")) == Inference()
