from __future__ import annotations

from dataclasses import replace

import numpy as np

from placement_gym.envs import SimulatedEnv
from placement_gym.problem import Problem, find_fitting_devices, free_memory_mask


def limited_problem(share: float = 0.4) -> Problem:
    devices = ["CPU", *({"name": f"GPU.{i}", "weight_share": share} for i in range(2))]
    return SimulatedEnv(model="family-attention-77-seed10008", devices=devices).problem


def test_units_placed_in_turn_under_the_mask_always_fit() -> None:
    problem, rng = limited_problem(), np.random.default_rng(0)
    n = problem.n_units
    for _ in range(20):
        placed, visited = rng.integers(0, 3, n), np.zeros(n, dtype=np.bool_)
        for unit in range(n):
            mask = free_memory_mask(problem, placed, visited, unit)
            placed[unit] = rng.choice(np.flatnonzero(mask))
            visited[unit] = True
        assert not problem.infeasibility(placed)


def test_only_visited_units_take_memory_and_pools_share_it() -> None:
    problem = limited_problem()
    pooled = replace(
        problem,
        devices=(
            problem.devices[0],
            *(replace(one, memory_pool="card") for one in problem.devices[1:]),
        ),
    )
    everywhere, visited = problem.single(1), np.ones(problem.n_units, dtype=np.bool_)
    largest = int(problem.unit_bytes.argmax())
    assert free_memory_mask(problem, everywhere, ~visited, largest).all()
    assert free_memory_mask(problem, everywhere, visited, largest).tolist() == [True, False, True]
    assert free_memory_mask(pooled, everywhere, visited, largest).tolist() == [True, False, False]


def test_without_room_anywhere_the_freest_supported_device_is_left() -> None:
    supported = np.array([[True, True, False], [True, True, True]])
    left = np.array([[-5.0, -2.0, 9.0], [-1.0, 3.0, 0.0]])
    assert find_fitting_devices(supported, left).tolist() == [
        [False, True, False],
        [False, True, True],
    ]
