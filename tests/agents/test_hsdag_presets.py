# White-box tests of agents.hsdag
"""HSDAG's presets have all steps of the paper, and the numbers of its table."""

from __future__ import annotations

from dataclasses import asdict

import gymnasium as gym
import pytest
import torch
from learned import SIMULATED, first_observation, read_table
from stable_baselines3 import PPO

from agents.hsdag import PRESETS, HSDAGPolicy, make
from agents.hsdag.policy import SampledGroups
from placement_gym.envs import REWARDS


def test_default_is_a_preset_with_all_steps() -> None:
    env = gym.make(SIMULATED, model="resnet")
    for model in (make(env, 0), PPO(HSDAGPolicy, env, n_steps=20, batch_size=20, device="cpu")):
        assert model.policy.options == PRESETS["rl"].policy
        seen = first_observation(model.env)
        assert isinstance(model.policy.decide(seen).distribution, SampledGroups)


def flatten(preset: str) -> dict[str, str]:
    """All values of a preset, as the table has them."""
    known = PRESETS[preset]
    parts = {"policy": asdict(known.policy), "reinforce": known.algorithm, "envs": known.envs,
             "optimizer": known.optimizer, "scarce": known.scarce}  # fmt: skip
    return {f"{part}.{name}": str(value) for part, found in parts.items()
            for name, value in found.items()}  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_have_the_values_of_the_table(preset: str) -> None:
    column = ("paper", "rl").index(preset)
    rows = {name: row for name, row in read_table("hsdag").items() if name.count(".") == 1}
    assert {name: row[column] for name, row in rows.items() if row[column] != "-"} == flatten(
        preset
    )
    assert all(len(row) == 3 and len(row[2]) > 2 for row in rows.values())


@pytest.mark.parametrize("preset", PRESETS)
def test_agents_and_policies_take_what_their_preset_says(preset: str) -> None:
    model, known = make(gym.make(SIMULATED, model="tiny"), 0, preset=preset), PRESETS[preset]
    assert model.policy.options == known.policy
    assert {name: getattr(model, name) for name in known.algorithm} == known.algorithm
    assert model.env.num_envs == known.envs["num_envs"]
    (group,) = model.policy.optimizer.param_groups
    assert group["betas"] == ((0.5, 0.999) if preset == "rl" else (0.9, 0.999))
    assert group["weight_decay"] == 0
    assert model.policy.optimizer.__class__ is torch.optim.Adam
    assert model.env.envs.reward is REWARDS[known.envs["reward"]]
    assert model.observation_space["step"].count == known.envs["horizon"]
