# White-box tests of deployment
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
from placement_gym.deployment import phases, plan, planning
from placement_gym.deployment.candidates import Candidate
from placement_gym.deployment.phases import choose_pair, state_phase_verdict
from placement_gym.deployment.selection import make_rows
from placement_gym.graph import extract
from placement_gym.hardware import DeviceSpec
from placement_gym.models import load_model
from placement_gym.problem import Placement, Problem
from placement_gym.problem.costs import analytic
from placement_gym.workloads import LATENCY, THROUGHPUT, Conversation

ALONE, SPLIT = np.array([1, 1, 1, 1]), np.array([0, 1, 1, 1])


def chat(problem: Problem) -> Problem:
    """The problem as if a prompt of 8 tokens and 10 tokens ran on it."""
    graph, request = problem.units.graph, Conversation(8, 10)
    graph = replace(graph, request=request, phases=((1.0, graph), (10.0, graph)))
    return replace(problem, units=replace(problem.units, graph=graph))


def scenario(prefill_ms: float, token_ms: float) -> Measurement:
    parts_ms = {"prefill_ms": prefill_ms, "token_ms": token_ms}
    return Measurement(prefill_ms + 10 * token_ms, 12.0, noise=0.01, parts_ms=parts_ms)


GPU = Candidate("GPU alone", ALONE, 9.0, measured=scenario(2.0, 1.0))
CPU = Candidate("CPU alone", 1 - ALONE, 19.0, measured=scenario(15.0, 0.5))
MILP = Candidate("milp", SPLIT, 8.0, measured=scenario(3.0, 0.8))
CANDIDATES = [GPU, CPU, MILP]


def test_the_pair_is_fastest_for_the_prompt_and_for_tokens() -> None:
    found = choose_pair(chat(diamond_problem()), CANDIDATES)
    assert found is not None
    assert [one.label for one in found] == ["GPU alone", "CPU alone"]


def test_one_placement_that_is_fastest_for_both_makes_no_pair() -> None:
    fastest = replace(GPU, measured=scenario(2.0, 0.4))
    assert choose_pair(chat(diamond_problem()), [fastest, CPU, MILP]) is None


def test_a_pair_that_devices_cannot_hold_together_is_no_pair() -> None:
    """The model has 1000 bytes; each placement fits, both of them do not."""
    devices = (DeviceSpec("CPU", memory_bytes=1500), DeviceSpec("GPU", memory_bytes=1050))
    found = choose_pair(chat(diamond_problem(devices)), CANDIDATES)
    assert found is not None
    assert [one.label for one in found] == ["GPU alone", "CPU alone"]
    devices = (DeviceSpec("CPU", memory_bytes=1000), DeviceSpec("GPU", memory_bytes=1050))
    measured = [GPU, replace(CPU, measured=None), MILP]
    assert choose_pair(chat(diamond_problem(devices)), measured) is None


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
            else Measurement(12.0, 12.0, noise=0.01)
            for one in assignments
        ]


def try_pair(fails: bool) -> tuple[list[Candidate], dict[str, Any]]:
    backend: Any = PhasedBackend(problem=chat(diamond_problem()))
    backend.fails = fails
    return phases.measure_phases(backend, CANDIDATES, MILP, quiet=True)


def test_two_placements_win_only_against_the_best_measured() -> None:
    found, report = try_pair(fails=False)
    assert report["wins"]
    row = next(row for row in make_rows(found) if row["label"] == "phases")
    assert row["speedup"] == pytest.approx(1.5)
    assert row["handover_ms"] == 0.25
    assert row["predicted_ms"] == pytest.approx(2.0 + 10 * 0.5)
    said = "Prompts on GPU alone and tokens on CPU alone beat milp, the best for both phases."
    assert report["verdict"] == said
    doubtful = state_phase_verdict("prompts on a", "", "a load", "within noise", "milp")
    assert "could not be decided: a load" in doubtful


def test_two_placements_that_fail_are_named_and_lose() -> None:
    _, report = try_pair(fails=True)
    assert not report["wins"]
    assert "does not run: no state can be set" in report["verdict"]


@pytest.mark.parametrize(("wins", "names"), [(True, ["", "-prefill", "-decode"]), (False, [""])])
def test_two_placements_are_saved_only_if_they_win(
    wins: bool, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Candidate("phases", np.stack([ALONE, SPLIT]), 7.0)
    measured = [*CANDIDATES, both], {"wins": wins}
    monkeypatch.setattr(planning, "measure_phases", lambda *_: measured)
    backend: Any = FakeBackend()
    found = planning.select(backend, CANDIDATES, "", phases=True, quiet=True)
    assert (found.chosen.label, found.winner.label) == ("milp", "phases" if wins else "milp")
    assert list(planning.list_placements(diamond_problem(), found)) == names


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
    def split(problem: Problem, candidates: Any) -> tuple[Candidate, Candidate]:
        return candidates[0], candidates[1]

    monkeypatch.setattr(phases, "choose_pair", split)
    monkeypatch.setattr(phases, "judge", lambda *_: "yes")
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
