# White-box tests of deployment, solvers.pipelines
"""Plans for throughput: the best pipelines of a profile, measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from fakes import LIMITED, diamond_costs, diamond_problem
from foreign_models import make_chain
from testbed import outputs, worst_relative

from placement_gym.backends import Measurement
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray, UserError
from placement_gym.deployment import compile_model, evaluate_placement, plan
from placement_gym.deployment.candidates import Candidate, find_pipelines, propose_pipelines
from placement_gym.deployment.planning import list_placements
from placement_gym.deployment.selection import Selection, make_rows
from placement_gym.hardware import DeviceSpec
from placement_gym.models import load_model
from placement_gym.problem import Placement
from placement_gym.problem.costs import parse_schedule
from placement_gym.solvers.pipelines import TooManyIdealsError, find_largest_load_ms, pipeline

LOAD = parse_schedule("serial", "throughput")


def test_best_contiguous_splits_are_proposed_within_limits() -> None:
    problem = diamond_problem(LIMITED)
    costs = diamond_costs(problem)
    found = dict(find_pipelines(problem, costs))
    assert list(found) == ["dp", "dpl"]
    load_ms = {name: find_largest_load_ms(problem, costs, one) for name, one in found.items()}
    assert load_ms["dp"] <= load_ms["dpl"]
    assert not any(problem.infeasibility(one) for one in found.values())


def test_a_graph_that_is_too_wide_is_split_along_one_order(monkeypatch: Any) -> None:
    def refuse(*_: Any) -> None:
        raise TooManyIdealsError("too wide")

    monkeypatch.setattr(pipeline, "exact_pipeline", refuse)
    problem = diamond_problem()
    assert [label for label, _ in find_pipelines(problem, diamond_costs(problem))] == ["dpl"]


def test_where_no_pipeline_fits_none_is_proposed() -> None:
    devices = (DeviceSpec("CPU", weight_share=0.3), DeviceSpec("GPU", weight_share=0.3))
    problem = diamond_problem(devices)
    assert not list(find_pipelines(problem, diamond_costs(problem)))


def test_candidates_are_devices_alone_and_pipelines_by_load() -> None:
    problem = diamond_problem()
    twin = SimulatedBackend(problem, diamond_costs(problem), LOAD)
    found, bound_ms = propose_pipelines(twin, 5.0)
    assert [candidate.label for candidate in found][:3] == ["CPU alone", "GPU alone", "dp"]
    for one in found:
        assert one.predicted_ms == pytest.approx(
            find_largest_load_ms(problem, twin.costs, one.assignment)
        )
        assert one.predicted_ms >= bound_ms - 1e-9


def test_rows_tell_requests_and_results_a_second() -> None:
    in_flight = Measurement(8.0, 10.0, requests=3, streams=1)
    candidate = Candidate("dp", np.array([0, 1, 1, 1]), 8.0, measured=in_flight)
    (row,) = make_rows([candidate])
    assert (row["requests_per_s"], row["requests"], row["streams"]) == (125.0, 3, 1)
    (row,) = make_rows([replace(candidate, measured=Measurement(8.0, 10.0))])
    assert "requests_per_s" not in row


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(UserError, match="did you mean 'throughput'"):
        plan("tiny", objective="throughputs")


def test_single_device_keeps_the_streams_it_was_measured_with() -> None:
    problem = diamond_problem()

    def devices(assignment: IntArray, streams: int | None) -> tuple[DeviceSpec, ...]:
        measured = Measurement(8.0, 10.0, streams=streams)
        chosen = Candidate("chosen", assignment, 8.0, measured=measured)
        return list_placements(problem, Selection([chosen], chosen, chosen, ""))[""].devices

    alone, split = problem.single(1), np.array([0, 1, 1, 1])
    assert [dict(one.properties) for one in devices(alone, 2)] == [{}, {"NUM_STREAMS": 2}]
    assert devices(alone, None) == devices(split, 1) == problem.devices


@pytest.mark.slow
def test_a_plan_for_throughput_runs_as_a_pipeline(tmp_path: Path) -> None:
    model = load_model(make_chain())
    document = plan(model, "cpu-testbed-pair", out=tmp_path, objective="throughput", quiet=True)
    assert document["objective"] == "throughput"
    assert {"CPU alone", "CPU_TWIN alone"} <= {row["label"] for row in document["rows"]}
    assert all(row["requests_per_s"] > 0 for row in document["rows"])
    placement = Placement.load(document["file"])
    found = outputs(compile_model(ov.Core(), model, placement), model)
    plain = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert worst_relative(found, outputs(plain, model)) < 1e-4
    values = evaluate_placement(model, placement, objective="throughput")
    assert values["objective"] == "throughput"
    assert values["requests_per_s"] == pytest.approx(1e3 / values["latency_ms"])
