"""The twin of a measured environment: its problem and observations, other latencies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from dear import dear_env
from gymnasium.utils.env_checker import check_env

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import UserError
from placement_gym.bench.run import BudgetedBackend
from placement_gym.envs import make_twin

HALF_ON_THE_SECOND = np.array([1, 1, 1, 1, 0, 0, 0])


def test_a_twin_is_an_environment_with_the_spaces_of_its_original() -> None:
    env = dear_env()
    twin = make_twin(env)
    assert twin.observation_space == env.observation_space
    assert twin.action_space == env.action_space
    check_env(twin, skip_render_check=True)


def test_latencies_of_a_twin_are_those_of_the_cost_table_and_evaluate_nothing() -> None:
    env = dear_env()
    alone, before = env.reference, env.backend.evaluations
    twin = make_twin(env)
    twin.reset()
    *_, info = twin.step(HALF_ON_THE_SECOND)
    exact = SimulatedBackend(env.problem, env.cost_table()).evaluate(HALF_ON_THE_SECOND)
    assert info["latency_ms"] == exact.latency_ms
    assert info["reference_ms"] == exact.reference_ms != alone.reference_ms
    assert env.backend.evaluations == before
    assert info["latency_ms"] != env.evaluate(HALF_ON_THE_SECOND).latency_ms


@pytest.mark.parametrize("changes", [{}, {"observe_devices": True}, {"max_nodes": 9}])
def test_observations_of_a_twin_are_those_of_its_original(changes: dict[str, Any]) -> None:
    env = dear_env(**changes)
    twin = make_twin(env)
    for one, other in zip(env.reset()[0].items(), twin.reset()[0].items(), strict=True):
        assert one[0] == other[0]
        np.testing.assert_array_equal(one[1], other[1])
    assert twin.graph_table().keys() == env.graph_table().keys()
    np.testing.assert_array_equal(twin.action_masks(), env.action_masks())


def test_an_action_is_repaired_to_the_same_placement_in_a_twin() -> None:
    env = dear_env(limited=True, repair=True)
    twin = make_twin(env)
    actions = np.random.default_rng(0).integers(2, size=(20, env.problem.n_units))
    np.testing.assert_array_equal(*(one.repair_rows(actions)[0] for one in (env, twin)))
    assert env.repair_rows(actions)[1].any()


def test_a_budget_of_its_original_does_not_count_evaluations_in_a_twin() -> None:
    env = dear_env(limited=True)
    counted = BudgetedBackend(env.backend, 1)
    with counted.count_evaluations(env, True):
        twin = make_twin(env)
        twin.evaluate_batch(np.ones((5, env.problem.n_units), dtype=np.int64))
    assert counted.evaluations == 0
    assert not counted.repaired
    assert twin.repair


def test_a_twin_leaves_its_original_as_it_is() -> None:
    env = dear_env()
    env.evaluate(HALF_ON_THE_SECOND)
    backend, row, singles = env.backend, env.row, env.singles
    twin = make_twin(env)
    twin.evaluate(np.zeros_like(HALF_ON_THE_SECOND))
    twin.close()
    assert env.backend is backend
    assert env.singles is singles
    np.testing.assert_array_equal(env.row, row)
    assert not backend.closed


def test_a_simulated_environment_is_refused_a_twin() -> None:
    with pytest.raises(UserError, match="needs no twin"):
        make_twin(gym.make("placement_gym:DevicePlacementSim-v0", model="tiny"))


def test_a_twin_is_of_the_costs_that_its_original_has_now() -> None:
    env = dear_env()
    env.backend.profile = replace(
        env.backend.profile, operator_ms=2 * env.backend.profile.operator_ms
    )
    assert make_twin(env).cost_table().fingerprint == env.backend.profile.fingerprint
