"""Vector environments whose actions decide priority and fusion beside the placement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from vector_play import same_play

from placement_gym.decisions import DECISIONS
from placement_gym.env import placement_env
from placement_gym.errors import UserError
from placement_gym.joint_env import JointEnv, simulated
from placement_gym.joint_vector import (
    JointSimulatedVectorEnv,
    JointVectorEnv,
    make_vector,
    simulated_vector,
)
from placement_gym.vector import PlacementVectorEnv, SimulatedVectorEnv

TINY = {"model": "tiny", "schedule": "event"}


@pytest.mark.parametrize("further", [("priority",), ("fusion",), ("priority", "fusion")])
def test_a_batch_plays_as_single_environments_do(further: tuple[str, ...]) -> None:
    options: dict[str, Any] = {
        **TINY,
        "decisions": ("placement", *further),
        "devices": ["CPU", {"name": "GPU", "weight_share": 0.5}],
        "horizon": 2,
        "noise": 0.1,
    }
    single = [lambda: simulated(**options)] * 4
    theirs = SyncVectorEnv(single, autoreset_mode=AutoresetMode.SAME_STEP)
    ours = simulated_vector(4, **options)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    same_play(ours, theirs, 5, seed=11)


def test_decisions_choose_the_environment() -> None:
    assert type(simulated_vector(2, model="tiny")) is SimulatedVectorEnv
    both = simulated_vector(2, decisions=DECISIONS, **TINY)
    assert isinstance(both, JointSimulatedVectorEnv)
    assert type(make_vector(both.env, 2)) is JointVectorEnv
    assert type(make_vector(simulated(model="tiny"), 2)) is PlacementVectorEnv


def test_actions_of_another_width_or_range_are_refused() -> None:
    env = simulated(DECISIONS, **TINY)
    assert isinstance(env, JointEnv)
    envs = make_vector(env, 2)
    with pytest.raises(UserError, match="are \\(2, "):
        envs.step(np.zeros((2, env.problem.n_units), dtype=np.int64))
    with pytest.raises(UserError, match="levels below 8"):
        envs.step(np.full((2, env.layout.width), 8))
    assert placement_env(env, joint=True) is envs.env
