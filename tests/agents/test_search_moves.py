"""Moves of the searches, and the placements that they start from."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agents.search import move_kernel as kernel
from agents.search.moves import Moves
from agents.search.starts import propose_heuristics, propose_starts
from placement_gym.arrays import IntArray
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.solvers.list_scheduling import heft

LIMITED = ["CPU", {"name": "GPU.0", "weight_share": 0.3}, {"name": "GPU.1", "weight_share": 0.3}]


def environment(model: str = "resnet", devices: Any = LIMITED, **kwargs: Any) -> DevicePlacementEnv:
    env = gym.make("placement_gym:DevicePlacementSim-v0", model=model, devices=devices, **kwargs)
    return placement_env(env)


def blocks(env: DevicePlacementEnv) -> IntArray:
    n = env.problem.n_units
    return np.arange(n) * len(env.problem.devices) // n


def draw(name: str, times: int = 200) -> tuple[Moves, IntArray, list[IntArray]]:
    """Results of one kind of move of three blocks, where it changed something."""
    env = environment("synthetic-layered-40")
    moves, before = Moves(env, np.random.default_rng(0)), blocks(env)
    results = []
    graph, devices = (moves.first, moves.neighbours), (len(env.problem.devices),)
    arguments = {
        "move_run": devices,
        "move_region": (*devices, *graph),
        "shift_border": (),
        "swap_regions": graph,
    }[name]
    for _ in range(times):
        row = before.copy()
        getattr(kernel, name)(moves.rng, row, *arguments)
        if (row != before).any():
            results.append(row)
    assert len(results) > times // 3
    return moves, before, results


def n_borders(row: IntArray) -> int:
    return int(np.count_nonzero(np.diff(row)))


def test_a_run_moves_to_one_device_or_exchanges_with_it() -> None:
    _, before, results = draw("move_run")
    for row in results:
        changed = np.flatnonzero(row != before)
        taken = np.unique(row[changed])
        assert len(taken) <= 2
        if len(taken) == 1:
            assert n_borders(row) <= n_borders(before) + 2


def test_a_region_is_connected_and_of_one_device() -> None:
    moves, before, results = draw("move_region")
    for row in results:
        changed = set(np.flatnonzero(row != before).tolist())
        assert len({int(before[u]) for u in changed}) == len({int(row[u]) for u in changed}) == 1
        reached = {min(changed)}
        for _ in changed:
            near = {
                int(v)
                for u in reached
                for v in moves.neighbours[moves.first[u] : moves.first[u + 1]]
            }
            reached |= near & changed
        assert reached == changed


def test_a_shifted_border_makes_no_new_run() -> None:
    _, before, results = draw("shift_border")
    assert all(n_borders(row) <= n_borders(before) for row in results)
    assert any(n_borders(row) == n_borders(before) for row in results)


def test_swapped_regions_exchange_their_devices() -> None:
    _, before, results = draw("swap_regions")
    for row in results:
        changed = row != before
        pairs = set(zip(before[changed].tolist(), row[changed].tolist(), strict=True))
        assert pairs == {(a, b) for b, a in pairs}
        assert len(pairs) == 2


def test_screened_moves_are_cheaper_and_fit() -> None:
    env = environment()
    env.repair = True
    start = env.repair_placements(blocks(env)[None])[0]
    mean_ms = {}
    for screen in (1, 10):
        tried = Moves(env, np.random.default_rng(0), screen).propose(start, 100)
        assert env.backend.evaluate_batch(tried).feasible.all()
        mean_ms[screen] = env.repair_prices.total_ms(tried).mean()
    assert mean_ms[10] < mean_ms[1]


def test_moved_units_stay_when_others_make_room() -> None:
    env = environment()
    env.repair = True
    start = env.repair_placements(np.ones((1, env.problem.n_units), dtype=np.int64))[0]
    moves = Moves(env, np.random.default_rng(0), screen=1)
    assert (moves.propose(start, 50) != start).any(axis=1).mean() > 0.9


def test_moves_without_rough_costs_are_not_screened() -> None:
    env = environment()
    env.backend = type("Unknown", (), {"rough_costs": None})()
    assert Moves(env, np.random.default_rng(0)).screen == 1


@pytest.mark.parametrize("repaired", [True, False])
def test_heuristics_are_distinct_and_fit_where_they_are_repaired(repaired: bool) -> None:
    env = environment(schedule="list")
    env.repair = repaired
    starts = propose_heuristics(env)
    assert len(np.unique(starts, axis=0)) == len(starts)
    feasible = env.backend.evaluate_batch(starts).feasible
    assert feasible.all() == repaired
    assert (starts == heft(env.problem, env.cost_table())).all(axis=1).any()
    again = propose_heuristics(env)
    assert (again == starts).all()


def test_quick_starts_leave_the_program_out() -> None:
    env = environment()
    quick, full = propose_starts(env, "quick"), propose_starts(env)
    assert quick is not None
    assert full is not None
    assert len(quick) == len(full) - 1
    assert propose_starts(env, "random") is None


def test_one_device_has_one_start() -> None:
    assert propose_heuristics(environment(devices=["CPU"])).tolist() == [[0] * 37]
