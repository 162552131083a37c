# White-box tests of graph.families
"""Sampled problems: seeds, splits, feasible limits, and environments made of them."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

from placement_gym.base import UserError
from placement_gym.envs import placement_env
from placement_gym.graph import MAX_SEED, build_family
from placement_gym.graph.families import SEEDS, SampledProblem, make_problem, split_of_seed
from placement_gym.graph.families.problems import (
    ACCELERATORS,
    DRAWN,
    HELD_OUT,
    MAX_EDGES,
    MAX_SET_SIZE,
    MAX_UNITS,
    MIN_UNITS,
    draw_devices,
    draw_limits,
    fill_best,
    sample_devices,
)
from placement_gym.problem.costs import ROOFLINES

N = 30


@cache
def draw(split: str) -> list[SampledProblem]:
    seeds = SEEDS[split]
    rng = np.random.default_rng(5)
    return [make_problem(int(rng.integers(seeds.start, seeds.stop))) for _ in range(N)]


def draw_all() -> list[SampledProblem]:
    return [problem for split in SEEDS for problem in draw(split)]


def test_a_seed_gives_the_same_problem_again() -> None:
    for problem in draw_all()[::10]:
        assert make_problem(problem.seed) == problem


def test_splits_share_no_seeds() -> None:
    ranges = sorted(SEEDS.values(), key=lambda seeds: seeds.start)
    for before, after in pairwise(ranges):
        assert before.stop <= after.start
    for split in SEEDS:
        assert {split_of_seed(problem.seed) for problem in draw(split)} == {split}
        assert {problem.split for problem in draw(split)} == {split}


def test_two_families_are_in_the_test_split_alone() -> None:
    seen = {split: {one.family for one in draw(split)} for split in SEEDS}
    assert not set(HELD_OUT) & (seen["train"] | seen["validation"])
    assert set(HELD_OUT) <= seen["test"]
    assert len(HELD_OUT) == 2
    assert seen["train"] == set(DRAWN) - set(HELD_OUT)


def test_seeds_and_splits_out_of_range_are_refused() -> None:
    for seed in (-1, MAX_SEED + 1):
        with pytest.raises(UserError, match="a seed is a number"):
            make_problem(seed)


def test_sizes_and_devices_stay_in_their_ranges_and_fill_them() -> None:
    sizes = [len(build_family(problem.model)) for problem in draw_all()]
    assert MIN_UNITS <= min(sizes) < 40
    assert 250 < max(sizes) <= MAX_UNITS
    assert max(build_family(problem.model).n_edges for problem in draw_all()) <= MAX_EDGES
    assert {len(problem.devices) for problem in draw_all()} <= set(range(1, MAX_SET_SIZE + 1))
    assert {2, 3, 4, 5} <= {len(problem.devices) for problem in draw_all()}
    kinds = {device.roofline for problem in draw_all() for device in problem.devices}
    assert set(ACCELERATORS) <= kinds | {""}
    assert set(ACCELERATORS) <= set(ROOFLINES)


def test_schedules_of_all_kinds_are_drawn() -> None:
    kinds = {json.dumps(dict(problem.semantics)) for problem in draw_all()}
    assert len(kinds) == 4


def test_a_feasible_placement_exists_and_the_environment_agrees() -> None:
    limited = [one for one in draw_all() if any(device.weight_share for device in one.devices)]
    assert len(limited) > N
    for problem in limited[::6]:
        env = placement_env(gym.make("DevicePlacementSim-v0", **problem.env_kwargs()))
        held = env.problem
        placed = fill_best(held.unit_bytes, np.minimum(held.limits_bytes, held.unit_bytes.sum()))
        assert placed is not None
        assert held.infeasibility(placed) == ""


def test_limits_reach_from_loose_to_barely_feasible() -> None:
    rng, capacity = np.random.default_rng(0), []
    for _ in range(300):
        devices = sample_devices(rng, np.ones(50))
        if all(device.weight_share for device in devices):
            capacity.append(sum(float(device.weight_share or 1.0) for device in devices))
    assert min(capacity) < 1.1
    assert max(capacity) > 2.0


def test_limits_are_loosened_until_large_units_fit() -> None:
    bytes_of_two = np.array([60.0, 40.0])
    for seed in range(50):
        devices = sample_devices(np.random.default_rng(seed), bytes_of_two)
        limits = np.array([device.limit_bytes(100) for device in devices])
        assert fill_best(bytes_of_two, np.minimum(limits, 100.0)) is not None


def test_filling_takes_the_fullest_device_that_has_room() -> None:
    placed = fill_best(np.array([2.0, 5.0, 3.0]), np.array([8.0, 5.0]))
    assert placed.tolist() == [0, 1, 0]
    assert fill_best(np.array([2.0, 5.0, 3.0]), np.array([8.0, 1.0])) is None


def test_limits_of_a_full_set_hold_the_model() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        assert draw_limits(rng, draw_devices(rng, 3)).sum() >= 1.02


def test_problems_are_made_by_their_arguments_in_json() -> None:
    for problem in draw_all()[::15]:
        kwargs = json.loads(json.dumps(problem.env_kwargs()))
        env = placement_env(gym.make("DevicePlacementSim-v0", observe_graph=False, **kwargs))
        assert env.problem.devices == problem.devices
        assert env.problem.units.graph.model == problem.model
        _, info = env.reset(seed=0)
        assert 1e-3 < info["reference_ms"] < 1e6
        costs = env.cost_table()
        assert np.isfinite(costs.transfer_ms).all()
        assert costs.transfer_ms.max() < 100.0


def test_links_range_from_pcie_to_nvlink() -> None:
    bandwidths = [ROOFLINES[name].link_gbytes_per_s for name in ACCELERATORS]
    assert min(bandwidths) < 13.0
    assert max(bandwidths) > 300.0


def test_other_families_are_drawn_where_they_are_asked_for() -> None:
    families = ("translation", "dense", "experts")
    drawn = {make_problem(seed, families).family for seed in range(20_000, 20_008)}
    assert drawn == {"translation", "dense"}
    assert make_problem(10_000, families[2:]).family == "experts"
    for wrong in (("transaltion",), HELD_OUT):
        with pytest.raises(UserError, match=r"translation|test split"):
            make_problem(20_000, wrong)
