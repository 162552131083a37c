"""Options of agents and policies: unknown and impossible ones are errors of the user."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import gymnasium as gym
import pytest

import agents
from agents.options import list_options
from placement_gym.base.errors import UserError
from placement_gym.bench.run.agents import AgentSpec, load_agent

SIMULATED = "placement_gym:DevicePlacementSim-v0"


def tiny() -> gym.Env[Any, Any]:
    return gym.make(SIMULATED, model="tiny")


@pytest.mark.parametrize("name", ["hsdag", "graph-groups", "post", "gdp", "hdp", "placeto"])
def test_an_unknown_option_suggests_and_lists(name: str) -> None:
    message = rf"agent '{name}' has no option 'lr'; did you mean 'learning_rate'\? it has .*policy"
    with pytest.raises(UserError, match=message):
        agents.make(name, tiny(), lr=1e-3)
    with pytest.raises(UserError, match=message):
        AgentSpec(name, {"lr": 1e-3, "repair": True}).check()


def test_every_agent_lists_its_options() -> None:
    for name in agents.AGENTS:
        known = list_options(load_agent(name))
        assert not known & {"env", "seed", "self", "kwargs", "settings", "policy_kwargs"}
        with pytest.raises(UserError, match="has no option 'nonsense'"):
            agents.make(name, None, nonsense=1)


@pytest.mark.parametrize("name", ["genetic", "logits-groups"])
def test_a_removed_agent_says_what_to_use(name: str) -> None:
    for find in (partial(agents.make, name, None), AgentSpec(name).load):
        with pytest.raises(UserError, match=f"'{name}' was removed: use the agent "):
            find()


@pytest.mark.parametrize(
    ("name", "policy", "message"),
    [
        ("hsdag", {"layers": -1}, "layers must be an integer of at least 0, not -1"),
        ("hsdag", {"groups": -1}, "groups must be a number of at least 0, not -1"),
        ("hsdag", {"depth": 1.5}, "depth must be an integer of at least 0, not 1.5"),
        ("hsdag", {"dropout": 2.0}, "dropout must be a number of at most 1"),
        ("hsdag", {"table": True}, "an option of HSDAGPolicy"),
        ("graph-groups", {"groups": 0}, "groups must be an integer of at least 1, not 0"),
        ("graph-groups", {"table": 1}, "table must be True or False"),
        ("hsdag", {"hidden": 0}, "hidden must be an integer of at least 1, not 0"),
        ("hsdag", {"conv": "gat", "hidden": 30}, "hidden must be a multiple of 4"),
        ("gdp", {"hidden": "64"}, "hidden must be an integer of at least 1, not '64'"),
        ("placeto", {"devices": 1}, "devices must be True or False"),
        ("rnn", {"cost_weight": -1.0}, "cost_weight must be a number of at least 0"),
    ],
)
def test_options_of_policies_are_checked(name: str, policy: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        agents.make(name, tiny(), policy=policy)


@pytest.mark.parametrize("name", ["logits", "placeto", "annealing", "search", "random"])
def test_steps_are_integers(name: str) -> None:
    with pytest.raises(UserError, match=r"total_timesteps must be an integer .* not 10\.5"):
        agents.make(name, tiny()).learn(10.5)


@pytest.mark.parametrize("name", ["DevicePlacementSim-v0", "DevicePlacement-v0"])
def test_an_unknown_keyword_of_make_suggests_the_nearest(name: str) -> None:
    with pytest.raises(TypeError, match="keyword argument 'device'; did you mean 'devices'"):
        gym.make(f"placement_gym:{name}", model="tiny", device="cpu+dgpu")


@pytest.mark.parametrize("name", agents.TRAINED)
def test_an_agent_that_is_trained_across_problems_has_a_trainer(name: str) -> None:
    module = agents.AGENTS[name].partition(":")[0]
    assert callable(import_module(module).make_trainer)


def test_other_agents_are_not_trained_across_problems() -> None:
    with pytest.raises(UserError, match=r"gdp, list-policy, placeto"):
        agents.make_trainer("heft")
