# White-box tests of envs
from __future__ import annotations

import math
from itertools import pairwise

import gymnasium as gym
import pytest

from placement_gym.backends import Measurement
from placement_gym.base import UserError
from placement_gym.envs import rewards

REFERENCE = Measurement(latency_ms=10.0, reference_ms=10.0)
FASTER = Measurement(latency_ms=4.0, reference_ms=10.0)
FAILED = Measurement.failed("too large", reference_ms=10.0)


@pytest.mark.parametrize(
    ("name", "of_faster", "of_failed"),
    [
        ("log_speedup", math.log(2.5), math.log(0.1)),
        ("speedup", 2.5, 0.1),
        ("inverse_latency", 250.0, 10.0),
        ("neg_sqrt_latency", -math.sqrt(0.004), -math.sqrt(0.1)),
        ("improvement", 0.6, -9.0),
    ],
)
def test_reward_follows_its_formula(name: str, of_faster: float, of_failed: float) -> None:
    reward = rewards.get_reward(name)
    assert reward(FASTER, REFERENCE) == pytest.approx(of_faster)
    assert reward(FAILED, REFERENCE) == pytest.approx(of_failed)


@pytest.mark.parametrize("env_id", ["DevicePlacementSim-v0", "DevicePlacementPerUnitSim-v0"])
def test_a_function_is_sent_to_the_page_on_rewards(env_id: str) -> None:
    with pytest.raises(
        UserError, match=r"not a function: .*Wrapper, see docs/how_to/own_problem\.md"
    ):
        gym.make(env_id, model="tiny", reward=lambda outcome: 1.0)


@pytest.mark.parametrize("name", sorted(rewards.REWARDS))
def test_a_faster_placement_never_earns_less(name: str) -> None:
    reward = rewards.get_reward(name)
    ladder = [Measurement(latency, 10.0) for latency in (100.0, 20.0, 10.0, 5.0, 0.1)]
    earned = [reward(step, REFERENCE) for step in ladder]
    assert all(low < high for low, high in pairwise(earned))


def too_large(excess_bytes: int) -> Measurement:
    return Measurement.failed("too large", 10.0, (0, 0), (600, 400), excess_bytes)


@pytest.mark.parametrize("name", sorted(rewards.REWARDS))
def test_more_bytes_too_many_earn_less(name: str) -> None:
    ladder = [too_large(excess) for excess in (1000, 999, 500, 1, 0)]
    earned = [rewards.get_reward(name)(step, REFERENCE) for step in ladder]
    assert all(low < high for low, high in pairwise(earned))
    assert earned[0] > -100.0
    assert {step.latency_ms for step in ladder} == {100.0}


def test_improvement_is_relative_to_the_graded_cost_before() -> None:
    assert rewards.improvement(too_large(250), too_large(500)) == pytest.approx(22.5)


@pytest.mark.parametrize("name", sorted(set(rewards.REWARDS) - {"improvement"}))
def test_only_improvement_looks_back(name: str) -> None:
    reward = rewards.get_reward(name)
    assert reward(FASTER, REFERENCE) == reward(FASTER, FAILED)


def test_improvement_counts_in_the_reference_of_each_measurement() -> None:
    drifted = Measurement(latency_ms=8.0, reference_ms=20.0)
    assert rewards.improvement(drifted, FASTER) == pytest.approx(0.0)


def test_a_failed_measurement_is_finite_and_costs_ten_references() -> None:
    assert FAILED.latency_ms == 100.0
    assert FAILED.latency_p90_ms == 100.0
    assert (FAILED.feasible, FAILED.error) == (False, "too large")
