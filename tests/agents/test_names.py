# White-box tests of agents
"""Agents by name, and what is said of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium as gym
import pytest
from learned import SIMULATED, simulated

import agents
from agents import AGENTS
from agents.about import SUBSTITUTES, describe_goal
from placement_gym.base import UserError


def test_agents_are_made_by_name_with_their_options() -> None:
    env = simulated()
    assert agents.make("prefix", env).predict(env.reset(seed=0)[0])[0].shape == (7,)
    assert agents.make("search", env, seconds=2.0).seconds == 2.0


def test_names_and_environments_are_checked_before_an_agent_is_made() -> None:
    with pytest.raises(UserError, match="did you mean 'annealing'"):
        agents.make("anealing", simulated())
    envs: Any = gym.make_vec(SIMULATED, 2, model="tiny")
    with pytest.raises(TypeError, match=r"give the agent one environment"):
        agents.make("milp", envs)
    for env_id in ("DevicePlacementSim-v0", "DevicePlacement-v0"):
        with pytest.raises(TypeError, match="keyword argument 'device'; did you mean 'devices'"):
            gym.make(f"placement_gym:{env_id}", model="tiny", device="cpu+dgpu")


def test_agents_that_are_trained_across_problems_have_a_trainer_and_others_none() -> None:
    for name in agents.TRAINED:
        assert callable(import_module(AGENTS[name].partition(":")[0]).make_trainer)
    with pytest.raises(UserError, match=r"gdp, list-policy, placeto"):
        agents.make_trainer("heft")


def test_an_agent_says_what_it_places_for() -> None:
    assert f"For throughput it refuses: {SUBSTITUTES['throughput']}" in describe_goal("milp")
    assert f"For latency it refuses: {SUBSTITUTES['latency']}" in describe_goal("dp")
    assert "a heuristic" in describe_goal("heft")
    assert "what its environment evaluates" in describe_goal("hsdag")
