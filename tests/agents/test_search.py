# White-box tests of agents.search
"""Searches without a network: budgets, seeds, resuming, and what they find."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import placement_gym  # noqa: F401  registers the environments
from agents.search import Search
from agents.search.annealing import Annealing, hill_climb
from placement_gym.base import FloatArray, IntArray, UserError
from placement_gym.bench.run import AgentSpec, BenchEnv, BudgetedBackend, load_agent, run_agent
from placement_gym.envs import placement_env
from placement_gym.problem import Placement
from placement_gym.solvers import minimum_cut

MAKERS = {"hill-climb": hill_climb, "annealing": Annealing}
ALL = pytest.mark.parametrize("name", list(MAKERS))


def environment(model: str = "inception", devices: object = "hsdag-paper") -> gym.Env:
    return gym.make("DevicePlacementSim-v0", model=model, devices=devices)


def made(name: str, env: gym.Env) -> Search:
    return MAKERS[name](env, 0)


@pytest.mark.parametrize("name", [*MAKERS, "search"])
def test_a_search_evaluates_as_many_placements_as_it_may(name: str) -> None:
    bench_env = BenchEnv.make("DevicePlacementSim-v0", {"model": "resnet"})
    row, _ = run_agent(bench_env, AgentSpec(name), seed=0, budget=131)
    assert (row.error, row.evaluations, row.stopped) == ("", 131, False)


def evaluated(name: str, parts: Sequence[int]) -> IntArray:
    """The placements that a search evaluates when it learns in some parts."""
    env = environment()
    base = placement_env(env)
    search, counted = made(name, env), BudgetedBackend(base.backend, sum(parts))
    if isinstance(search, Annealing):
        search.horizon, search.batch = sum(parts), 1
    base.backend = counted
    for part in parts:
        search.learn(part)
    return np.stack([one.assignment for one in counted.history])


@ALL
def test_learning_in_two_parts_goes_on_where_it_stopped(name: str) -> None:
    assert (evaluated(name, [50, 50]) == evaluated(name, [100])).all()


@ALL
def test_structured_searches_come_close_to_the_optimum(name: str) -> None:
    env = environment("resnet")
    base = placement_env(env)
    cut = minimum_cut(base.problem.units, base.cost_table()).assignment
    assert cut is not None
    optimum = base.backend.evaluate_ignoring_limits(cut)
    found = made(name, env).learn(400)
    assert found.best_speedup >= 0.97 * optimum.speedup


@ALL
def test_limits_and_support_hold_in_what_is_predicted(name: str) -> None:
    env = environment(devices=["CPU", {"name": "GPU", "weight_share": 0.4}])
    search = made(name, env).learn(150)
    assert placement_env(env).problem.infeasibility(search.assignment) == ""
    assert search.best_speedup > 1.0


@ALL
def test_a_search_is_never_worse_than_its_starts(name: str) -> None:
    env = environment("bert-8")
    search = made(name, env)
    _, batch = placement_env(env).evaluate_batch(search.starts)
    search.learn(40)
    assert search.best_speedup >= batch.speedup.max()
    assert search.best_speedup >= placement_env(env).singles.fastest().speedup


def test_starts_count_as_evaluations() -> None:
    search = hill_climb(environment("bert-8"), 0)
    search.learn(3)
    assert search.evaluations == 3
    search.learn(40)
    assert search.evaluations == 43


def test_a_search_without_progress_goes_on_from_a_changed_best() -> None:
    search = Annealing(environment("tiny"), 0, "random", temperature=(0.0, 0.0), patience=20)
    search.learn(60)
    moved_away = 0
    for _ in range(40):
        search.learn(2)
        moved_away += (search.current != search.assignment).any() and search.speedup < 1e-6
    assert moved_away >= 1


@pytest.mark.parametrize("repaired", [True, False])
def test_repair_makes_every_evaluation_of_a_search_feasible(repaired: bool) -> None:
    env = environment("resnet", ["CPU", {"name": "GPU", "weight_share": 0.3}])
    base = placement_env(env)
    base.repair = repaired
    batches = []
    inner = base.backend.evaluate_batch
    base.backend.evaluate_batch = lambda given: batches.append(inner(given)) or batches[-1]
    hill_climb(env, 0).learn(60)
    assert np.concatenate([batch.feasible for batch in batches]).all() == repaired


def test_annealing_goes_on_from_the_fastest_of_its_starts() -> None:
    env = environment("tiny")
    problem = placement_env(env).problem
    starts = np.stack([problem.single(device) for device in range(2)])
    for given in (starts, starts[::-1]):
        search = Annealing(env, 0)
        search.starts = given.copy()
        search.learn(2)
        assert search.current.tolist() == search.assignment.tolist()


def test_an_unknown_start_is_refused() -> None:
    with pytest.raises(ValueError, match="'heuristics', 'quick', 'random' or a pl"):
        Annealing(environment(), 0, start="worst")


def test_hill_climbing_never_takes_a_slower_placement() -> None:
    search = hill_climb(environment(), 0)
    reached = 0.0
    for _ in range(60):
        search.learn(search.batch)
        assert search.speedup >= reached
        reached = search.speedup


@pytest.mark.parametrize(
    ("heat", "share", "tries"), [(1e-9, 0.0, 40), (0.5, np.exp(-2.0), 250), (1e9, 1.0, 40)]
)
def test_annealing_accepts_slower_placements_as_metropolis_does(
    heat: float, share: float, tries: int
) -> None:
    search = Annealing(environment("tiny"), 0, "random", temperature=(heat, heat), batch=1)
    search.learn(1)
    accepted = 0

    def evaluate(tried: IntArray) -> tuple[IntArray, FloatArray]:
        search.evaluations += len(tried)
        return tried, np.full(len(tried), np.exp(-1.0))  # a loss of one in log speed-up

    search.evaluate = evaluate
    for _ in range(tries):
        search.speedup = 1.0
        search.learn(1)
        accepted += search.speedup < 1.0
    assert accepted / tries == pytest.approx(share, abs=0.06)


def test_annealing_cools_down_over_its_horizon() -> None:
    search = Annealing(environment(), 0, "random", horizon=100, temperature=(0.05, 0.0005))
    before = search.find_temperature()
    search.learn(100)
    assert before == pytest.approx(0.05)
    assert search.find_temperature() == pytest.approx(0.0005)
    assert np.isfinite(search.best_speedup)


def test_annealing_starts_at_a_saved_placement(tmp_path: Path) -> None:
    env = environment()
    base = placement_env(env)
    wanted = np.arange(base.problem.n_units) % 2
    file = tmp_path / "plan.json"
    Placement.from_assignment(base.problem, wanted).save(file)
    search = Annealing(env, 0, start=str(file)).learn(1)
    assert (search.assignment == wanted).all()
    assert (load_agent("saved")(env, 0, file=str(file)).assignment == wanted).all()
    with pytest.raises(ValueError, match=r"no placement file .*absent"):
        load_agent("saved")(env, 0, file="absent.json")


@ALL
def test_searches_survive_one_device(name: str) -> None:
    for devices in (["CPU"], ["CPU", "GPU"]):
        env = gym.make(
            "placement_gym:DevicePlacementSim-v0", model="synthetic-layered-16", devices=devices
        )
        found = load_agent(name)(env, 0).learn(30)
        assert found.evaluations == 30


@pytest.mark.parametrize("options", [
    {"batch": 0}, {"batch": "two"}, {"patience": -1}, {"horizon": 0}, {"temperature": 3},
    {"temperature": (-1.0, 0.0)},
])  # fmt: skip
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        Annealing(environment("tiny"), 0, **options)
