# White-box tests of agents, agents.search
"""Runs of agents: what becomes of searches, predictions and mistakes."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Greedy

import placement_gym
from agents.search.starts import remember_starts
from agents.static import FixedPlacement
from placement_gym.bench.run import AgentSpec, BenchEnv, run_agent

SIM = "DevicePlacementSim-v0"


def test_an_agent_that_never_stops_is_stopped_at_its_budget(bench_env: BenchEnv) -> None:
    row, placement = run_agent(bench_env, AgentSpec.from_value(Greedy), seed=0, budget=9)
    assert row.evaluations == 9
    assert placement is not None


def test_per_unit_steps_count() -> None:
    bench_env = BenchEnv.make("DevicePlacementPerUnitSim-v0", {"model": "tiny"})
    row, _ = run_agent(bench_env, AgentSpec("random"), seed=0, budget=10)
    assert row.evaluations == 10


def test_an_agent_without_learn_is_judged_by_its_one_placement() -> None:
    bench_env = BenchEnv.make("DevicePlacementPerUnitSim-v0", {"model": "tiny"})
    row, placement = run_agent(
        bench_env, AgentSpec("single-device", {"device": "GPU"}), seed=0, budget=20
    )
    assert placement is not None
    assert set(placement.units.values()) == {"GPU"}
    assert row.speedup_vs_best_single == 1.0
    assert row.beats_best_single == "no"


class Learner(FixedPlacement):
    """Evaluates placements as long as it may, and predicts one of its own."""

    answer, tried = 1, 0

    def __init__(self, env: Any, seed: int) -> None:
        super().__init__(np.full(7, self.answer))
        self.env = env

    def learn(self, total_timesteps: int) -> None:
        for _ in range(total_timesteps + 1):
            self.env.reset()
            self.env.step(np.full(7, self.tried))


def test_the_last_evaluation_of_a_learner_is_of_what_it_predicts(bench_env: BenchEnv) -> None:
    singles = bench_env.base.singles.speedups()
    for answer in (0, 1):
        agent = type("Own", (Learner,), {"answer": answer, "tried": 1 - answer})
        row, placement = run_agent(bench_env, AgentSpec.from_value(agent), seed=0, budget=5)
        assert row.evaluations == 5
        assert row.greedy_speedup == singles[answer]
        assert row.speedup == max(singles[0], singles[1])
        assert placement is not None


def test_what_predicts_the_best_that_it_evaluated_has_the_whole_budget(
    bench_env: BenchEnv,
) -> None:
    seen: list[int] = []

    class Search(Learner):
        predicts_best = True

        def learn(self, total_timesteps: int) -> None:
            seen.append(total_timesteps)
            super().learn(total_timesteps)

    row, _ = run_agent(bench_env, AgentSpec.from_value(Search), seed=0, budget=5)
    assert (seen, row.evaluations) == ([5], 5)


def test_all_evaluations_of_a_learners_last_episode_count() -> None:
    bench_env = BenchEnv.make("DevicePlacementPerUnitSim-v0", {"model": "tiny"})
    seen: list[int] = []

    class ByUnit(Learner):
        def learn(self, total_timesteps: int) -> None:
            seen.append(total_timesteps)
            self.env.reset()
            for _ in range(total_timesteps):
                if self.env.step(0)[2]:
                    self.env.reset()

    row, _ = run_agent(bench_env, AgentSpec.from_value(ByUnit), seed=0, budget=20)
    assert (seen, row.evaluations) == ([13], 20)
    # a budget that does not hold an episode is the search's
    row, _ = run_agent(bench_env, AgentSpec.from_value(ByUnit), seed=0, budget=6)
    assert (seen[1:], row.evaluations) == ([6], 6)


def test_simulated_rows_replay_exactly(bench_env: BenchEnv) -> None:
    row, placement = run_agent(bench_env, AgentSpec("window"), seed=0, budget=10)
    assert placement is not None
    again = bench_env.base.backend.evaluate(placement.assignment(bench_env.base.problem))
    assert row.latency_ms == again.latency_ms
    assert row.greedy_latency_ms == again.latency_ms


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [("DevicePlacementPerUnitSim-v0", {"start": "random"}), (SIM, {"horizon": 50})],
)
def test_the_greedy_episode_is_never_cut_short(env_id: str, kwargs: dict[str, Any]) -> None:
    bench_env = BenchEnv.make(env_id, {"model": "tiny", **kwargs})
    row, _ = run_agent(bench_env, AgentSpec("single-device", {"device": "CPU"}), seed=0, budget=2)
    assert row.error == ""


def test_a_placement_beyond_the_budget_is_no_finalist(bench_env: BenchEnv) -> None:
    class Late(Greedy):
        def learn(self, total_timesteps: int) -> None:
            self.env.reset()
            self.env.step(np.zeros(7, dtype=np.int64))

        def predict(self, observation: Any, *_: Any, **__: Any) -> tuple[Any, None]:
            return np.ones(observation["placement"].shape, dtype=np.int64), None

    row, placement = run_agent(bench_env, AgentSpec.from_value(Late), seed=0, budget=1)
    assert placement is not None
    assert set(placement.units.values()) == {"CPU"}
    assert row.greedy_latency_ms < row.latency_ms


def test_a_ready_object_only_predicts(bench_env: BenchEnv) -> None:
    row, _ = run_agent(bench_env, AgentSpec.from_value(Greedy(bench_env.env, 0)), seed=0, budget=5)
    assert row.evaluations == 1


@pytest.mark.parametrize("error", [KeyError("a mistake"), SystemExit(3), MemoryError()])
def test_failed_run_keeps_best_placement_curve_and_evaluations(
    bench_env: BenchEnv, error: BaseException
) -> None:
    class Failing(Greedy):
        def learn(self, total_timesteps: int) -> None:
            for device in (0, 1, 0):
                self.env.reset()
                self.env.step(np.full(7, device))
            raise error

    row, placement = run_agent(bench_env, AgentSpec.from_value(Failing), seed=0, budget=9)
    assert placement is None
    assert type(error).__name__ in row.error
    assert ("(test_agent_run.py:" in row.error) != isinstance(error, SystemExit)
    assert (row.evaluations, row.latency_ms) == (3, None)
    assert row.placement is not None
    assert set(row.placement.values()) == {"GPU"}
    assert [evaluations for evaluations, _, _ in row.curve] == [1, 2]


def test_a_failed_run_ends_alone_and_is_reported_with_its_placement(tmp_path: Path) -> None:
    class Torn(Greedy):
        def learn(self, total_timesteps: int) -> None:
            self.env.reset()
            self.env.step(np.arange(7) % 2)
            sys.exit("enough")

    document = placement_gym.compare(
        "tiny", [Torn, "single-device", "heft"], SIM, budget=5, out=tmp_path, quiet=True
    )
    torn, heft = document["rows"][-2:]
    assert "enough" in torn["error"]
    assert (torn["evaluations"], torn["latency_ms"]) == (1, None)
    assert torn["placement"]
    assert heft["latency_ms"] is not None
    assert "Torn" not in document["verdict"]
    assert (tmp_path / "tiny-Torn-seed0.json").is_file()


class EndsEarly(FixedPlacement):
    """Evaluates some placements, the best first, and predicts another one."""

    def __init__(self, env: Any, seed: int, evaluations: int = 3, heuristic: str = "") -> None:
        self.base, self.evaluations = env.unwrapped, evaluations
        self.best = best_of_all(self.base)
        super().__init__(self.base.problem.single(0))
        if heuristic:
            remember_starts(self.base, {heuristic: self.best})

    def learn(self, total_timesteps: int) -> None:
        for number in range(min(self.evaluations, total_timesteps)):
            self.base.evaluate(self.assignment if number else self.best)


def best_of_all(base: Any) -> Any:
    rows = np.array(list(product(range(2), repeat=base.problem.n_units)))
    return rows[base.backend.inner.evaluate_batch(rows).speedup.argmax()]


def test_a_search_that_ends_by_itself_is_marked(bench_env: BenchEnv) -> None:
    early, _ = run_agent(bench_env, AgentSpec.from_value(EndsEarly), seed=0, budget=10)
    assert (early.stopped, early.evaluations) == (True, 4)  # the last is what it predicts
    full, _ = run_agent(bench_env, AgentSpec.from_value(EndsEarly), seed=0, budget=3)
    assert (full.stopped, full.evaluations) == (False, 3)


def test_a_larger_budget_never_makes_the_finalist_worse(bench_env: BenchEnv) -> None:
    """The best placement is seen first; all later ones, and the prediction, are worse."""
    rows = [
        run_agent(bench_env, AgentSpec.from_value(EndsEarly), 0, budget)[0] for budget in (1, 2, 9)
    ]
    assert len({row.latency_ms for row in rows}) == 1
    assert rows[-1].latency_ms < (rows[-1].greedy_latency_ms or 0.0)


def test_a_finalist_that_was_a_start_names_it(bench_env: BenchEnv) -> None:
    spec = AgentSpec("early", {"heuristic": "milp"}, EndsEarly)
    assert run_agent(bench_env, spec, seed=0, budget=5)[0].start == "milp"
    after = run_agent(bench_env, AgentSpec.from_value(EndsEarly), seed=0, budget=5)[0]
    assert after.start == "", "starts of another run do not count"


def test_a_search_that_begins_with_heuristics_says_so(bench_env: BenchEnv) -> None:
    row, _ = run_agent(bench_env, AgentSpec("annealing", {"start": "quick"}), seed=0, budget=8)
    assert row.start
    assert run_agent(bench_env, AgentSpec("milp"), seed=0, budget=8)[0].start == ""
