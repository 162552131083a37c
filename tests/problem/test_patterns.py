# White-box tests of problem
from __future__ import annotations

import numpy as np
import pytest
from fakes import CPU_GPU, diamond_problem
from graphs import chain, problem_on

from placement_gym.base import BoolArray, IntArray
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Problem, sample_placements
from placement_gym.problem.patterns import MAX_RUNS, MAX_SCATTERED, random_runs, random_units

THREE = (*CPU_GPU, DeviceSpec("NPU"))


def long_problem(n_units: int = 300, devices: tuple[DeviceSpec, ...] = CPU_GPU) -> Problem:
    return problem_on(chain(n_units), devices)


def n_runs(placement: IntArray) -> int:
    return 1 + int((np.diff(placement) != 0).sum())


def distinct(placements: list[IntArray]) -> set[tuple[int, ...]]:
    return {tuple(placement.tolist()) for placement in placements}


@pytest.mark.parametrize("n", [1, 10, 60])
@pytest.mark.parametrize("devices", [CPU_GPU, THREE], ids=["two", "three"])
def test_the_number_of_placements_is_as_requested_and_all_differ(
    n: int, devices: tuple[DeviceSpec, ...]
) -> None:
    placements = sample_placements(long_problem(devices=devices), n, np.random.default_rng(0))
    assert len(placements) == len(distinct(placements)) == n
    for placement in placements:
        assert placement.dtype == np.int64
        assert placement.shape == (300,)
        assert set(placement.tolist()) <= set(range(len(devices)))


@pytest.mark.parametrize("seed", range(5))
def test_no_placement_leaves_everything_on_one_device(seed: int) -> None:
    for placement in sample_placements(diamond_problem(), 10, np.random.default_rng(seed)):
        assert len(np.unique(placement)) == 2


@pytest.mark.parametrize("seed", range(5))
def test_half_of_the_placements_are_runs_and_half_are_random(seed: int) -> None:
    placements = sample_placements(long_problem(), 40, np.random.default_rng(seed))
    few = sum(n_runs(placement) <= MAX_RUNS for placement in placements)
    assert 18 <= few <= 22


@pytest.mark.parametrize("devices", [CPU_GPU, THREE], ids=["two", "three"])
def test_runs_are_two_to_eight(devices: tuple[DeviceSpec, ...]) -> None:
    problem, rng = long_problem(devices=devices), np.random.default_rng(1)
    assert {n_runs(random_runs(problem, rng)) for _ in range(300)} == set(range(2, 9))


def test_shares_of_random_units_vary_from_few_to_nearly_all() -> None:
    placements = sample_placements(long_problem(), 60, np.random.default_rng(3))
    shares = [float(placement.mean()) for placement in placements if n_runs(placement) > MAX_RUNS]
    assert min(shares) < 0.2
    assert max(shares) > 0.8
    assert 0.3 < np.mean(shares) < 0.7


def test_units_of_a_long_model_are_scattered_in_runs() -> None:
    # Of 4,500 operators on two devices a placement had 1,300 submodels, and compiled for minutes.
    problem = long_problem(4 * MAX_SCATTERED)
    drawn = [random_units(problem, np.random.default_rng(seed)) for seed in range(5)]
    assert all(np.diff(placement.reshape(-1, 4)).max() == 0 for placement in drawn)
    assert max(map(n_runs, drawn)) > 0.3 * MAX_SCATTERED


def refusing(problem: Problem, refused: BoolArray) -> Problem:
    return Problem(problem.units, problem.devices, ~refused)


@pytest.mark.parametrize("seed", range(3))
def test_no_unit_is_on_a_device_that_does_not_run_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    refused = rng.random((50, 3)) < 0.3
    refused[:, 0] = False
    problem = refusing(long_problem(50, THREE), refused)
    placements = sample_placements(problem, 30, rng)
    assert len(placements) == 30
    for placement in placements:
        assert problem.support_error(placement) == ""
        assert len(np.unique(placement)) > 1


def test_no_placement_where_only_one_device_runs_anything() -> None:
    refused = np.zeros((6, 2), dtype=np.bool_)
    refused[:, 1] = True
    problem = refusing(long_problem(6), refused)
    assert sample_placements(problem, 5, np.random.default_rng(0)) == []


def test_equal_generators_make_equal_placements() -> None:
    problem = long_problem()
    first, again, other = (
        sample_placements(problem, 12, np.random.default_rng(s)) for s in (4, 4, 5)
    )
    np.testing.assert_array_equal(first, again)
    assert distinct(first) != distinct(other)


def test_a_small_problem_has_all_its_placements_sampled() -> None:
    placements = sample_placements(long_problem(3), 30, np.random.default_rng(0))
    assert len(placements) == len(distinct(placements)) == 2**3 - 2


@pytest.mark.parametrize(
    "problem", [long_problem(1), long_problem(5, CPU_GPU[:1])], ids=["one-unit", "one-device"]
)
def test_one_unit_or_one_device_cannot_be_split(problem: Problem) -> None:
    assert sample_placements(problem, 5, np.random.default_rng(0)) == []
