"""Blocks: bounds lie below every placement, and are those of the memory's prices exactly."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import cost_table, every_placement, find_least_ms, grouped, made_graph
from overlapping import LIST, OVERLAPPING, diamonds, drawn, with_idle_operators

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.problem.costs.semantics import Semantics
from placement_gym.problem.problem import Problem
from placement_gym.solvers.beams import block_search
from placement_gym.solvers.beams.block_prices import PricedBlocks, Tangent, bound_by_blocks, meet
from placement_gym.solvers.beams.blocks import Blocks
from placement_gym.solvers.bounds import without_limits
from placement_gym.solvers.tasks import Tasks

EXACT = 1.0 + 1e-6
SCALES = (0.0, 0.5, 1.0, 1.7)
DRAWN = [seed if seed < 4 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(16)]
DIAMONDS = [
    seed if seed < 3 else pytest.param(seed, marks=pytest.mark.slow)
    for seed in range(16)
    if seed != 8  # without time, its first task is in no block
]


def priced_ms(backend: SimulatedBackend, memory: np.ndarray) -> float:  # type: ignore[type-arg]
    """The least latency plus price of memory beyond the limits, of all placements."""
    problem = backend.problem
    free = SimulatedBackend(without_limits(problem), backend.costs, backend.semantics)
    every = every_placement(problem)
    latency_ms, _ = free.evaluate_batch_exactly(every)
    on = every[:, :, None] == np.arange(len(memory))
    held = np.einsum("kud,u->kd", on, problem.unit_bytes)
    limits = np.where(np.isfinite(problem.limits_bytes), problem.limits_bytes, 0.0)
    return float((latency_ms + (held - limits) @ memory).min())


@pytest.mark.parametrize("semantics", OVERLAPPING)
@pytest.mark.parametrize("seed", DRAWN)
def test_no_placement_is_below_the_bound(
    seed: int, semantics: Semantics, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths = (2, 3) if seed % 2 else (1_000,)
    monkeypatch.setattr(block_search, "WIDTHS", widths)
    backend = drawn(seed, semantics)
    if seed % 4 > 1:
        backend = with_idle_operators(backend, seed)
    found = bound_by_blocks(backend.problem, backend.costs, semantics)
    assert 0.0 <= found.bound_ms <= find_least_ms(backend) * EXACT


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("seed", DIAMONDS)
def test_bound_at_each_price_is_the_least_cost_of_all_placements(
    seed: int, narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a narrow search lies below."""
    backend = diamonds(seed)
    priced = PricedBlocks(backend.problem, backend.costs, LIST, np.inf)
    if narrow:
        monkeypatch.setattr(block_search, "WIDTHS", (1 + seed % 3,))
    else:
        priced.memory = np.where(np.isfinite(backend.problem.limits_bytes), 0.1, 0.0)
        assert len(priced.blocks.blocks) >= 3
    for scale in SCALES:
        found = priced.solve(scale)
        least = priced_ms(backend, scale * priced.memory)
        assert found.bound_ms <= least * EXACT
        assert narrow or found.bound_ms == pytest.approx(least)


@pytest.mark.parametrize("seed", range(2))
def test_without_limits_the_bound_is_the_optimum(seed: int) -> None:
    backend = diamonds(seed)
    free = SimulatedBackend(without_limits(backend.problem), backend.costs, LIST)
    found = bound_by_blocks(free.problem, free.costs, LIST)
    assert found.bound_ms == pytest.approx(find_least_ms(free))


def test_bound_is_between_divided_units_and_a_known_latency() -> None:
    backend = diamonds(3)
    divided_ms = PricedBlocks(backend.problem, backend.costs, LIST, np.inf).bound_ms
    assert bound_by_blocks(backend.problem, backend.costs, LIST).bound_ms >= divided_ms
    known = bound_by_blocks(backend.problem, backend.costs, LIST, upper_ms=0.5 * divided_ms)
    assert known.bound_ms == 0.5 * divided_ms


def test_without_time_there_is_a_bound_still() -> None:
    backend = diamonds(2)
    found = bound_by_blocks(backend.problem, backend.costs, LIST, time_limit_s=0.0)
    assert 0.0 <= found.bound_ms <= find_least_ms(backend) * EXACT


def blocks_of(n: int, read: list[tuple[int, list[int]]], units: list[int] | None = None) -> Blocks:
    graph = made_graph(n, read)
    group = grouped(graph, np.arange(n) if units is None else np.array(units))
    costs = cost_table(graph, [[1, 2]] * n, [1] * len(read))
    devices = diamonds(0).problem.devices
    every = np.ones((len(group), 2), dtype=np.bool_)
    problem = Problem(group, devices, every, np.arange(1, n + 1))
    return Blocks.of(problem, Tasks.of_operators(group, costs), np.arange(n))


def sizes(blocks: Blocks) -> list[int]:
    return [len(block.tasks) - 2 for block in blocks.blocks]


def test_borders_are_tasks_that_all_others_come_before_or_after() -> None:
    diamond = blocks_of(5, [(0, [1, 2]), (1, [3]), (2, [3]), (3, [4])])
    assert sizes(diamond) == [0, 2, 0, 0]
    assert not len(diamond.loose_bytes)
    held = [block.unit_bytes.sum() for block in diamond.blocks]
    assert held == [1, 2 + 3 + 4, 5, 0]


def test_what_a_later_task_reads_bypasses_no_border() -> None:
    assert sizes(blocks_of(4, [(0, [1, 2]), (1, [2]), (2, [3])])) == [0, 1, 0, 0]


def test_memory_of_a_unit_counts_once_wherever_its_tasks_are() -> None:
    chain = blocks_of(4, [(0, [1]), (1, [2]), (2, [3])], [0, 1, 0, 2])
    assert sum(block.unit_bytes.sum() for block in chain.blocks) + chain.loose_bytes.sum() == 10


def test_tangents_meet() -> None:
    assert meet(Tangent(0.0, 1.0, 2.0), Tangent(2.0, 1.0, -2.0)) == (1.0, 3.0)
