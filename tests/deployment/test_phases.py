"""Plans of two phases: which two placements are tried, and what is said of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import CPU_GPU, FakeBackend, diamond_problem
from foreign_models import make_decoder
from graphs import problem_on

from placement_gym.backends import Measurement
from placement_gym.backends.measured import QUICK
from placement_gym.base import UserError
from placement_gym.deployment import phases, plan
from placement_gym.deployment.candidates import Candidate
from placement_gym.deployment.phases import Phased, choose_pair, describe_phases
from placement_gym.deployment.plan_rows import choose, make_rows
from placement_gym.graph.extract import extract
from placement_gym.hardware import DeviceSpec
from placement_gym.models import load_model
from placement_gym.problem import Placement, Problem
from placement_gym.problem.costs import analytic
from placement_gym.workloads import LATENCY, THROUGHPUT
from placement_gym.workloads.with_state import Conversation

ALONE, SPLIT = np.array([1, 1, 1, 1]), np.array([0, 1, 1, 1])
CANDIDATES = [
    Candidate("GPU alone", ALONE, 9.0),
    Candidate("CPU alone", 1 - ALONE, 19.0),
    Candidate("milp", SPLIT, 8.0),
]


def chat(problem: Problem) -> Problem:
    """The problem as if a prompt of 8 tokens and 10 tokens ran on it."""
    graph, request = problem.units.graph, Conversation(8, 10)
    graph = replace(graph, request=request, phases=((1.0, graph), (10.0, graph)))
    return replace(problem, units=replace(problem.units, graph=graph))


def scenario(prefill_ms: float, token_ms: float) -> Measurement:
    parts_ms = {"prefill_ms": prefill_ms, "token_ms": token_ms}
    return Measurement(prefill_ms + 10 * token_ms, 20.0, noise=0.01, parts_ms=parts_ms)


MEASURED = {
    "GPU alone": scenario(2.0, 1.0),
    "CPU alone": scenario(15.0, 0.5),
    "milp": scenario(3.0, 0.8),
}


def test_the_pair_is_fastest_for_the_prompt_and_for_tokens() -> None:
    found = choose_pair(chat(diamond_problem()), CANDIDATES, MEASURED)
    assert found is not None
    assert [one.label for one in found] == ["GPU alone", "CPU alone"]


def test_one_placement_that_is_fastest_for_both_makes_no_pair() -> None:
    measured = MEASURED | {"GPU alone": scenario(2.0, 0.4)}
    assert choose_pair(chat(diamond_problem()), CANDIDATES, measured) is None


def test_a_pair_that_devices_cannot_hold_together_is_no_pair() -> None:
    """The model has 1000 bytes; each placement fits, both of them do not."""
    devices = (DeviceSpec("CPU", memory_bytes=1500), DeviceSpec("GPU", memory_bytes=1050))
    found = choose_pair(chat(diamond_problem(devices)), CANDIDATES, MEASURED)
    assert found is not None
    assert [one.label for one in found] == ["GPU alone", "CPU alone"]
    devices = (DeviceSpec("CPU", memory_bytes=1000), DeviceSpec("GPU", memory_bytes=1050))
    measured = {name: MEASURED[name] for name in ("GPU alone", "milp")}
    assert choose_pair(chat(diamond_problem(devices)), CANDIDATES, measured) is None


class PhasedBackend(FakeBackend):
    """Two placements take 8 ms, or fail; one takes what the fake costs."""

    fails, protocol = False, QUICK

    def remeasure(self, assignments: Any) -> list[Measurement]:
        if self.fails:
            raise RuntimeError("no state can be set")
        return [
            replace(
                scenario(3.0, 0.5),
                latency_ms=8.0,
                parts_ms={"prefill_ms": 3.0, "token_ms": 0.5, "handover_ms": 0.25},
            )
            if one.ndim == 2
            else Measurement(12.0, 20.0, noise=0.01)
            for one in assignments
        ]


def try_pair(backend: PhasedBackend) -> Phased:
    rows = make_rows(CANDIDATES, MEASURED, {})
    found = phases.measure_phases(
        backend,  # type: ignore[arg-type]
        CANDIDATES,
        MEASURED,
        rows,
        choose(rows),
        quiet=True,
    )
    assert found is not None
    return found


def test_two_placements_win_only_against_the_best_measured() -> None:
    found = try_pair(PhasedBackend(problem=chat(diamond_problem())))
    assert found.wins
    assert found.row["speedup"] == pytest.approx(1.5)
    assert found.row["handover_ms"] == 0.25
    assert found.row["predicted_ms"] == pytest.approx(2.0 + 10 * 0.5)
    said = "Prompts on GPU alone and tokens on CPU alone beat milp, the best for both phases."
    assert describe_phases(found, "milp") == said
    doubtful = replace(found, row=found.row | {"warning": "a load"}, answer="within noise")
    assert "could not be decided: a load" in describe_phases(doubtful, "milp")


def test_two_placements_that_fail_are_named_and_lose() -> None:
    backend = PhasedBackend(problem=chat(diamond_problem()))
    backend.fails = True
    found = try_pair(backend)
    assert not found.wins
    assert "does not run: no state can be set" in describe_phases(found, "milp")


def test_only_models_with_state_and_latencies_have_phases() -> None:
    with pytest.raises(UserError, match="which this model does not have"):
        LATENCY.check_phases(diamond_problem().units.graph.request)
    with pytest.raises(UserError, match="planned for latency"):
        THROUGHPUT.check_phases(chat(diamond_problem()).units.graph.request)


def test_a_profile_is_divided_into_the_prompt_and_its_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = problem_on(extract(load_model("gpt"), "folded", "chat-6-3"), CPU_GPU)
    costs = analytic(problem.units.graph, CPU_GPU)
    share = np.full(costs.operator_ms.shape, 0.25)
    monkeypatch.setattr(phases, "measure_prompt_shares", lambda backend: share)
    backend: Any = FakeBackend(problem=problem)
    prompt, tokens = phases.split_costs(backend, costs)
    assert prompt.operator_ms == pytest.approx(costs.operator_ms / 4)
    assert prompt.link_ms == pytest.approx(costs.link_ms / 4)  # one of four inferences
    assert np.median(prompt.transfer_size / tokens.transfer_size) == 2.0  # six tokens, three
    for name in ("operator_ms", "transfer_size", "link_ms", "submodel_ms"):
        whole = getattr(prompt, name) + getattr(tokens, name)
        assert whole == pytest.approx(getattr(costs, name))


@pytest.mark.slow
def test_a_plan_of_two_phases_is_two_placements_and_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def split(problem: Problem, candidates: Any, measured: Any) -> tuple[Candidate, Candidate]:
        return candidates[0], candidates[1]

    monkeypatch.setattr(phases, "choose_pair", split)
    monkeypatch.setattr(phases, "judge_phases", lambda *_: "yes")
    document = plan(make_decoder(), "cpu-testbed", granularity="op", out=tmp_path,
                    time_limit_s=1.0, quiet=True, phases=True,
                    scenario="chat-4-2", export=tmp_path / "deployed")  # fmt: skip
    assert document["plan"] == "phases"
    row = next(row for row in document["rows"] if row["label"] == "phases")
    assert row["handover_ms"] > 0.0
    on = [set(Placement.load(file).units.values()) for file in document["phases"]["files"]]
    assert on == [{"CPU"}, {"CPU_FAST"}]
    assert (tmp_path / "deployed" / "run.py").is_file()
    held = document["memory"]["placements"]
    assert held["phases"][0]["weights"] == held["CPU alone"][0]["weights"]
