"""Repair of infeasible placements: what it promises, and what a slow one does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import chain, op_graph, problem_on
from slow_repair import SlowRepair

from placement_gym.base import IntArray
from placement_gym.graph import group
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Problem
from placement_gym.solvers import RepairPrices, repair

CASES = range(30)


def random_case(seed: int, slack: float | None = None) -> tuple[Problem, RepairPrices, IntArray]:
    """A small problem with whole numbers for prices, and 20 random placements."""
    rng = np.random.default_rng(seed)
    n, n_devices = int(rng.integers(2, 14)), int(rng.integers(2, 5))
    pairs = [(a, b) for b in range(n) for a in range(b) if rng.random() < 0.25]
    graph = op_graph(n, pairs)
    sizes = rng.integers(0, 6, n) * (rng.random(n) < 0.8)
    graph = replace(graph, weight_bytes=sizes * 100)
    share = rng.uniform(0.15, 1.2, n_devices) if slack is None else np.full(n_devices, slack)
    devices = tuple(
        DeviceSpec(f"GPU.{d}", memory_bytes=max(int(sizes.sum() * 100 * share[d]), 1))
        for d in range(n_devices)
    )
    supported = rng.random((n, n_devices)) < 0.9
    supported[:, 0] = True
    problem = Problem(group(graph, "op"), devices, supported)
    prices = RepairPrices.from_costs(problem, None)
    # whole numbers have exact sums: up to 12 readers share a price of 27720
    link_ms = np.round(prices.link_ms * 27.72) * rng.integers(0, 3)
    unit_ms = rng.integers(0, 9, (n, n_devices)) * 10_000.0
    prices = replace(prices, link_ms=link_ms, unit_ms=unit_ms)
    blocks = np.sort(rng.integers(0, n_devices, (20, n)), axis=1)
    scattered = rng.integers(0, n_devices, (20, n))
    return problem, prices, np.where(rng.random((20, 1)) < 0.5, blocks, scattered)


def excess(problem: Problem, assignment: IntArray) -> float:
    held = np.bincount(assignment, problem.unit_bytes, len(problem.devices))
    return float(np.maximum(held - problem.limits_bytes, 0.0).sum())


@pytest.mark.parametrize("seed", CASES)
def test_a_repair_is_that_of_the_slow_oracle(seed: int) -> None:
    problem, prices, assignments = random_case(seed)
    keep = np.random.default_rng(seed).random(assignments.shape) < 0.3
    slow = SlowRepair(problem, prices)
    assert repair(problem, assignments, prices).tolist() == [slow(a).tolist() for a in assignments]
    kept = [slow(a, k).tolist() for a, k in zip(assignments, keep, strict=True)]
    assert repair(problem, assignments, prices, keep).tolist() == kept


@pytest.mark.parametrize("seed", CASES)
def test_a_repair_helps_or_changes_nothing(seed: int) -> None:
    problem, prices, assignments = random_case(seed)
    repaired = repair(problem, assignments, prices)
    slow = SlowRepair(problem, prices)
    for before, after in zip(assignments, repaired, strict=True):
        assert problem.support_error(after) == ""
        if not problem.infeasibility(before):
            assert (after == before).all()
        if not problem.support_error(before):
            assert excess(problem, after) <= excess(problem, before)
            if excess(problem, slow.refill(before)) == 0:
                assert excess(problem, after) == 0
    assert (repair(problem, repaired, prices) == repaired).all()


@pytest.mark.parametrize("seed", range(10))
def test_a_batch_is_repaired_as_its_members_are(seed: int) -> None:
    problem, prices, assignments = random_case(seed)
    before = assignments.copy()
    together = repair(problem, assignments, prices)
    alone = [repair(problem, one[None], prices)[0] for one in assignments]
    assert (together == np.stack(alone)).all()
    assert (assignments == before).all()
    assert repair(problem, assignments[:0], prices).shape == (0, problem.n_units)


def chain_problem(limits: list[int], sizes: list[int]) -> Problem:
    graph = replace(chain(len(sizes)), weight_bytes=np.array(sizes))
    devices = tuple(DeviceSpec(f"GPU.{d}", memory_bytes=m) for d, m in enumerate(limits))
    return problem_on(graph, devices)


def unlinked(unit_ms: list[list[float]]) -> RepairPrices:
    """Prices of units on two devices; transfers cost nothing."""
    first = np.zeros(len(unit_ms) + 1, dtype=np.int64)
    return RepairPrices(np.array(unit_ms), first, first[:0], np.empty((0, 2, 2)))


def test_the_end_of_a_run_leaves_and_not_its_middle() -> None:
    problem = chain_problem([300, 350], [100] * 6)
    repaired = repair(
        problem, np.zeros((1, 6), dtype=np.int64), RepairPrices.from_costs(problem, None)
    )
    assert repaired[0].tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


def test_the_unit_with_the_least_regret_a_byte_leaves() -> None:
    problem = chain_problem([250, 1000], [100, 100, 100])
    prices = unlinked([[0.0, 5.0], [0.0, 1.0], [0.0, 3.0]])
    assert repair(problem, np.zeros((1, 3), dtype=np.int64), prices)[0].tolist() == [0, 1, 0]


def test_units_that_are_kept_leave_last() -> None:
    problem = chain_problem([250, 1000], [100, 100, 100])
    prices = unlinked([[0.0, 5.0], [0.0, 1.0], [0.0, 3.0]])
    keep = np.array([[False, True, False]])
    zeros = np.zeros((1, 3), dtype=np.int64)
    assert repair(problem, zeros, prices, keep=keep)[0].tolist() == [0, 0, 1]
    assert repair(problem, zeros, prices, keep=np.ones((1, 3), dtype=bool))[0].tolist() == [0, 1, 0]


def test_units_without_bytes_stay() -> None:
    problem = chain_problem([100, 1000], [0, 300, 0])
    repaired = repair(problem, np.zeros((1, 3), dtype=np.int64), unlinked([[0.0, 1.0]] * 3))
    assert repaired[0].tolist() == [0, 1, 0]


def test_what_fits_nowhere_comes_back_with_less_overload() -> None:
    problem = chain_problem([100, 150], [100, 100, 100])
    repaired = repair(problem, np.zeros((1, 3), dtype=np.int64), unlinked([[0.0, 0.0]] * 3))
    assert excess(problem, repaired[0]) == 50.0


def test_an_invalid_placement_is_refused() -> None:
    problem = chain_problem([100, 100], [1, 1, 1])
    with pytest.raises(ValueError, match="3 device indices from 0 to 1"):
        repair(problem, np.full((1, 3), 2), RepairPrices.from_costs(problem, None))


def test_price_is_the_serial_sum_if_tensors_have_one_reader() -> None:
    problem = chain_problem([100, 100], [1, 1, 1])
    times_ms = np.array([[1.0, 2.0], [4.0, 8.0], [16.0, 32.0]])
    prices = replace(RepairPrices.from_costs(problem, None), unit_ms=times_ms)
    assert prices.total_ms(np.array([[0, 1, 1], [0, 1, 0]])).tolist() == [1041.0, 2025.0]
