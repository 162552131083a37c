"""Whole models on devices: as good as trying every assignment, within support and memory."""

from __future__ import annotations

from itertools import product
from typing import cast

import gymnasium as gym
import numpy as np
import pytest

from placement_gym.base import UserError
from placement_gym.envs import SimulatedEnv
from placement_gym.solvers import heuristics as room
from placement_gym.solvers import model_per_device


def make(models: str, devices: str = "cpu+dgpu") -> SimulatedEnv:
    env = gym.make("DevicePlacementSim-v0", model=models, devices=devices, objective="throughput")
    return cast(SimulatedEnv, env.unwrapped)


def test_it_is_the_best_of_all_assignments_by_the_simulator() -> None:
    env = make("tiny+cnn:3+mobilenet")
    model = room.time_models(env.problem, env.cost_table())[1]
    every = [np.array(one)[model] for one in product((0, 1), repeat=3)]
    found = model_per_device(env.problem, env.cost_table())
    loads = [env.backend.evaluate(one).latency_ms for one in every]
    assert env.backend.evaluate(found).latency_ms == pytest.approx(min(loads))


def test_a_rate_of_two_is_two_loads() -> None:
    envs = make("tiny+cnn"), make("tiny+cnn:2")
    once, twice = (room.time_models(env.problem, env.cost_table())[0] for env in envs)
    np.testing.assert_allclose(twice, once * [[1], [2]])


def test_transfers_of_a_model_of_rate_two_count_twice() -> None:
    env, plain = make("tiny+cnn:2"), make("tiny+cnn")
    costs, once = env.cost_table(), plain.cost_table()
    of_cnn = env.problem.units.graph.model_of[env.problem.units.graph.tensors.source] == 1
    np.testing.assert_allclose(costs.transfer_ms[of_cnn], 2 * once.transfer_ms[of_cnn])
    np.testing.assert_allclose(costs.transfer_ms[~of_cnn], once.transfer_ms[~of_cnn])
    assert type(costs).from_json(costs.to_json()).fingerprint == costs.fingerprint


def test_models_go_where_memory_is_left() -> None:
    """Alone the accelerator would take both; it holds the larger one of them."""
    env = make("tiny+cnn")
    problem, costs = env.problem, env.cost_table()
    model = room.time_models(problem, costs)[1]
    held = np.bincount(model, problem.unit_bytes)
    assert set(model_per_device(problem, costs).tolist()) == {1}
    limited = problem.with_limits(np.array([np.inf, held.max()]))
    assert not limited.infeasibility(model_per_device(limited, costs))
    with pytest.raises(UserError, match="raise the limits"):
        model_per_device(problem.with_limits(np.full(2, held.min() / 2)), costs)


def test_more_assignments_than_can_be_tried_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    env = make("tiny+cnn")
    monkeypatch.setattr(room, "MAX_ASSIGNMENTS", 3)
    with pytest.raises(UserError, match="use the agent search"):
        model_per_device(env.problem, env.cost_table())


def test_rates_need_throughput() -> None:
    with pytest.raises(UserError, match="--objective throughput"):
        gym.make("DevicePlacementSim-v0", model=["tiny", "cnn:2"])
