"""Equal budgets: what counts, what is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placement_gym.backends import BackendWrapper, Batch, Measurement
from placement_gym.base import IntArray
from placement_gym.bench.run import BenchEnv, BudgetedBackend, BudgetReached

SIM = "DevicePlacementSim-v0"


def test_repeated_placements_count(bench_env: BenchEnv) -> None:
    backend = BudgetedBackend(bench_env.base.backend, budget=2)
    assignment = bench_env.base.problem.single(0)
    backend.evaluate(assignment)
    backend.evaluate(assignment)
    with pytest.raises(BudgetReached):
        backend.evaluate(assignment)


def test_the_best_placements_are_distinct_feasible_and_sorted(bench_env: BenchEnv) -> None:
    backend = BudgetedBackend(bench_env.base.backend, budget=10)
    problem = bench_env.base.problem
    slow, fast = problem.single(0), problem.single(1)
    for assignment, speedup in ((slow, 1.7), (fast, 2.0), (fast, 1.9), (slow, 1.8)):
        backend.record(assignment, speedup, "")
    backend.record(np.ones(0), 9.0, "broken")
    best = backend.best(3)
    assert [a.tolist() for a in best] == [fast.tolist(), slow.tolist()]


def test_placement_slower_beyond_noise_is_no_contender(bench_env: BenchEnv) -> None:
    backend = BudgetedBackend(bench_env.base.backend, budget=10)
    fast, near, far = np.zeros(1, np.int64), np.ones(1, np.int64), np.full(1, 2)
    for assignment, speedup in ((far, 1.59), (near, 1.6), (fast, 2.0)):
        backend.record(assignment, speedup, "")
    assert [one.tolist() for one in backend.best(3)] == [[0], [1]]


def test_evaluations_that_others_disturbed_are_counted(bench_env: BenchEnv) -> None:
    inner, busy = bench_env.base.backend, 0.4

    class Busy(BackendWrapper):
        def evaluate(self, assignment: IntArray) -> Measurement:
            return replace(inner.evaluate(assignment), interference=busy)

        def evaluate_batch(self, assignments: IntArray) -> Batch:
            return Batch.evaluate(self.evaluate, assignments)

    backend = BudgetedBackend(Busy(inner), budget=10)
    single = bench_env.base.problem.single(0)
    backend.evaluate(single)
    backend.evaluate_batch(np.stack([single, single]))
    busy = 0.0
    backend.evaluate(single)
    assert [backend.describe(n)["disturbed"] for n in (1, 4)] == [1, 3]


def test_the_curve_holds_improvements_only(bench_env: BenchEnv) -> None:
    backend = BudgetedBackend(bench_env.base.backend, budget=10)
    for device in (0, 0, 1, 0):
        backend.evaluate(bench_env.base.problem.single(device))
    assert [point[0] for point in backend.curve] == [1, 3]


def test_a_batch_is_cut_by_what_is_left_of_the_budget(bench_env: BenchEnv) -> None:
    backend = BudgetedBackend(bench_env.base.backend, budget=3)
    problem = bench_env.base.problem
    backend.evaluate(problem.single(0))
    with pytest.raises(BudgetReached):
        backend.evaluate_batch(np.stack([problem.single(1)] * 5))
    assert backend.evaluations == 3
    assert backend.best(1)[0].tolist() == problem.single(1).tolist()


def test_repairs_beyond_a_budget_are_not_those_of_later_evaluations(bench_env: BenchEnv) -> None:
    backend = BudgetedBackend(bench_env.base.backend, budget=2)
    rows = np.tile(bench_env.base.problem.single(0), (3, 1))
    backend.note_repairs(np.ones(3, dtype=np.bool_))
    with pytest.raises(BudgetReached):
        backend.evaluate_batch(rows)
    backend.budget = 3
    backend.note_repairs(np.zeros(1, dtype=np.bool_))
    backend.evaluate_batch(rows[:1])
    described = backend.describe(backend.evaluations)
    assert (described["evaluations"], described["repaired"]) == (3, 2)


def test_changing_an_agents_array_later_changes_no_history(bench_env: BenchEnv) -> None:
    backend = BudgetedBackend(bench_env.base.backend, budget=3)
    assignment = bench_env.base.problem.single(1)
    backend.evaluate(assignment)
    assignment[:] = 0
    assert backend.best(1)[0].tolist() == bench_env.base.problem.single(1).tolist()
