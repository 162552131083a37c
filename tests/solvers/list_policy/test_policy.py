# White-box tests of solvers.list_policy
"""Statistics of problems, shipped policies, and the starts that a search takes from them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy.stats import gmean

from placement_gym.base import UserError
from placement_gym.envs import SimulatedEnv, StreamProblem
from placement_gym.graph.families import StreamProblems, make_problem
from placement_gym.schedules import cost_ms
from placement_gym.solvers.list_policy import (
    LARGEST,
    MANY,
    N_STATISTICS,
    N_WEIGHTS,
    ONE,
    ListPolicy,
    compute_statistics,
    draw_actions,
    propose_lists,
)
from placement_gym.solvers.list_policy.list_problem import STATISTICS, ListProblem, add_up_times
from placement_gym.solvers.list_policy.policy import SHIPPED

PROBLEMS = range(500, 580)


def view_of(**kwargs: object) -> ListProblem:
    env = SimulatedEnv(observe_graph=False, **kwargs)  # type: ignore[arg-type]
    return ListProblem.from_problem(env.problem, env.simulated.simulator)


def test_statistics_say_what_a_problem_is() -> None:
    devices = ["CPU", *({"name": f"GPU.{i}", "weight_share": 0.25} for i in range(2))]
    view = view_of(model="resnet", devices=devices, schedule="event")
    found = dict(zip(STATISTICS, compute_statistics(view).tolist(), strict=True))
    assert found["devices"] == 3 / 4 - 1
    assert found["limited"] == found["contended"] == 1.0
    assert found["tightness"] == pytest.approx(1.5, abs=1e-4)
    assert found["serial"] == found["throughput"] == 0.0
    chain = compute_statistics(view_of(model="synthetic-series-parallel-100", devices=["CPU"]))
    assert dict(zip(STATISTICS, chain.tolist(), strict=True))["serial"] == 1.0


@pytest.mark.parametrize("model", ["family-branching-60-seed3", "synthetic-layered-80"])
def test_sums_and_the_longest_path_are_those_of_networkx(model: str) -> None:
    view = view_of(model=model, devices="cpu+2dgpu", schedule="list")
    best, hosted, transfer, longest = add_up_times(view)
    assert best == pytest.approx(view.unit_ms.min(axis=1).sum())
    assert hosted == pytest.approx(view.unit_ms[:, view.host].sum())
    assert transfer == pytest.approx(view.transfer_ms.sum())
    graph = nx.DiGraph()
    for i, ms in enumerate(view.ms.min(axis=1)):
        readings = slice(int(view.first[i]), int(view.first[i + 1]))
        graph.add_edges_from(((int(maker), i) for maker in view.maker[readings]), ms=ms)
        graph.add_edge("source", i, ms=ms)
    assert longest == pytest.approx(nx.dag_longest_path_length(graph, weight="ms"))


def test_statistics_do_not_depend_on_the_unit_of_time() -> None:
    view = view_of(model="resnet", devices="cpu+2dgpu", schedule="list")
    times = {
        name: 1000.0 * getattr(view, name)
        for name in ("ms", "unit_ms", "transfer_ms", "boundary_ms", "mean_ms", "gain_ms")
    }
    other = ListProblem(**vars(view) | times)
    np.testing.assert_allclose(compute_statistics(other), compute_statistics(view))


@pytest.mark.parametrize("seed", range(20_000, 20_008))
def test_statistics_are_in_the_space_of_observations(seed: int) -> None:
    statistics = StreamProblem(make_problem(seed), {}).statistics
    assert statistics.shape == (N_STATISTICS,)
    assert np.abs(statistics).max() <= LARGEST


@cache
def list_problems() -> list[StreamProblem]:
    return [StreamProblem(StreamProblems(sizes=(50, 150))(seed), {}) for seed in PROBLEMS]


def score(policy: ListPolicy | None, number: int, shuffled: bool = False) -> float:
    """Geometric mean over problems of floor / latency of the best of so many schedules."""
    problems = list_problems()
    ratios = []
    for index, problem in enumerate(problems):
        rng = np.random.default_rng(index)
        seen = problems[index - 7].statistics if shuffled else problem.statistics
        drawn = draw_actions(rng, number) if policy is None else policy.draw(seen, number, rng)
        ratios.append(problem.floor_ms / problem.scheduler.find_best(drawn, rng)[1][0])
    return float(gmean(ratios))


def test_a_shipped_policy_is_far_ahead_of_random_weights() -> None:
    assert score(ListPolicy.load(ONE), 1) > 1.1 * score(None, 1)
    assert score(ListPolicy.load(MANY), 8) > 1.01 * score(None, 8)


def test_a_policy_needs_the_statistics_of_the_problem() -> None:
    one = ListPolicy.load(ONE)
    assert score(one, 1) > 1.01 * score(one, 1, shuffled=True)


def test_a_policy_is_saved_and_loaded(tmp_path: Path) -> None:
    policy = replace(ListPolicy.load(ONE), about="another")
    policy.save(tmp_path / "policy.json")
    assert ListPolicy.load(tmp_path / "policy.json") == policy
    assert (tmp_path / "policy.json").stat().st_size < 20_000
    with pytest.raises(UserError, match="many"):
        ListPolicy.load("neither")


@pytest.mark.parametrize("name", SHIPPED)
def test_the_most_likely_action_comes_first(name: str) -> None:
    policy, statistics = ListPolicy.load(name), np.zeros(N_STATISTICS)
    drawn = policy.draw(statistics, 200, np.random.default_rng(0))
    means, spreads = policy.compute(statistics)
    assert drawn.shape == (200, N_WEIGHTS)
    np.testing.assert_array_equal(drawn[0], means)
    assert drawn.std(axis=0) == pytest.approx(spreads, rel=0.3)


@pytest.mark.parametrize("seed", range(20_000, 20_004))
def test_starts_of_a_search_are_feasible(seed: int) -> None:
    problem = StreamProblem(make_problem(seed), {})
    starts = [*propose_lists(problem.scheduler, np.random.default_rng(0))]
    costs = [cost_ms(problem.problem, problem.simulator, one.astype(np.uint8)) for one in starts]
    assert 1 <= len(costs) <= 3
    assert np.isfinite(costs).all()
