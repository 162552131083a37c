"""What an infeasible placement costs, in every form of the environment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import LIMITED, assignment, diamond_backend, diamond_problem
from scripted_engine import ScriptedEngine

from placement_gym.envs import DevicePlacementEnv, PerUnitEnv

SIMULATED = "placement_gym:DevicePlacementSim-v0"
TIGHT = ["CPU", {"name": "GPU", "weight_share": 0.3}]
"""The diamond's units hold 100, 200, 300 and 400 bytes, and its GPU 500."""


def test_a_step_is_paid_for_the_bytes_that_it_makes_too_many() -> None:
    base = DevicePlacementEnv(diamond_backend(diamond_problem(LIMITED)))
    env = PerUnitEnv(base)
    env.reset()
    steps = [env.step(1) for _ in range(4)]
    assert [info["excess_bytes"] for *_, info in steps] == [0, 0, 100, 500]
    assert steps[3][1] == pytest.approx(-90 * 400 / 1000)


@pytest.mark.parametrize("reward", ["log_speedup", "improvement"])
def test_a_batch_is_paid_as_single_environments_are(reward: str) -> None:
    kwargs: dict[str, Any] = {"model": "tiny", "devices": TIGHT, "horizon": 2, "reward": reward}
    envs = gym.make_vec(SIMULATED, 20, **kwargs)
    alone = gym.make(SIMULATED, **kwargs)
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 2, (2, 20, 7))
    envs.reset(seed=0)
    paid = [envs.step(first)[1], envs.step(second)[1]]
    infeasible = []
    for i in range(20):
        alone.reset(seed=0)
        for actions, rewards in zip((first, second), paid, strict=True):
            _, earned, *_, info = alone.step(actions[i])
            assert rewards[i] == earned
            infeasible += [earned] * (not info["feasible"])
    assert len(set(infeasible)) > 1


def test_measured_placements_that_do_not_fit_say_by_how_much() -> None:
    engine = ScriptedEngine([10.0])
    engine.problem = replace(engine.problem, devices=LIMITED)
    rows = np.array([[0, 1, 1, 1], [1, 1, 1, 1]])
    failed = [engine.evaluate(row) for row in rows]
    assert [one.excess_bytes for one in failed] == [400, 500]
    assert engine.excess_shares(rows).tolist() == [0.4, 0.5]
    assert [one.cost_ms for one in failed] == pytest.approx([460.0, 550.0])
    assert engine.evaluate(assignment([0, 0, 0, 1])).cost_ms == 5.0


def test_excess_of_decisions_is_that_of_the_placement_alone() -> None:
    kwargs: dict[str, Any] = {"model": "tiny", "devices": TIGHT, "schedule": "event"}
    joint = gym.make(SIMULATED, **kwargs, decisions=("placement", "priority")).unwrapped
    plain = gym.make(SIMULATED, **kwargs).unwrapped
    assert isinstance(joint, DevicePlacementEnv)
    assert isinstance(plain, DevicePlacementEnv)
    row = np.ones((1, 7), dtype=np.int64)
    levels = np.full((1, 7), 3)
    found = joint.backend.excess_shares(np.concatenate([row, levels], axis=1))
    assert found == plain.backend.excess_shares(row) == pytest.approx(0.7, abs=0.01)


def test_outputs_beyond_a_limit_count_and_soft_limits_do_not() -> None:
    kwargs: dict[str, Any] = {"model": "tiny", "devices": TIGHT}
    lifetime = {"preset": "event", "memory": "lifetime"}
    hard = gym.make(SIMULATED, **kwargs, schedule=lifetime).unwrapped
    soft = gym.make(SIMULATED, **kwargs, schedule="placeto").unwrapped
    row = np.ones((1, 7), dtype=np.int64)
    assert isinstance(hard, DevicePlacementEnv)
    assert isinstance(soft, DevicePlacementEnv)
    failed = hard.backend.evaluate(row[0])
    weights = hard.problem.memory_bytes(row[0]) - hard.problem.limits_bytes
    assert failed.excess_bytes > weights[1] > 0
    assert hard.backend.excess_shares(row) == failed.excess_bytes / sum(failed.memory_bytes)
    assert soft.backend.excess_shares(row).tolist() == [0.0]
    assert soft.backend.evaluate(row[0]).feasible
