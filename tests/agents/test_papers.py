# White-box tests of agents.doppler, agents.gdp, agents.placeto, agents.rnn
"""Published agents: every number has a source, and every step of the papers runs by default."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import Any

import gymnasium as gym
import pytest
import torch
from learned import SIMULATED, Steps, count_calls, read_table
from named_agents import tight_env
from stable_baselines3 import PPO

import agents
from agents.common import REINFORCE, LearnedAgent
from agents.doppler import PRESETS as DOPPLER
from agents.doppler.doppler import Doppler
from agents.doppler.networks import DevicePolicy, NodePolicy
from agents.gdp import GOPolicy, UnitPPO
from agents.gdp import make as go
from agents.gdp.networks import Attention, GraphSAGE, ModulatedLinear
from agents.gdp.stages import DecisionStages
from agents.placeto import PlacetoPolicy
from agents.placeto import make as placeto_agent
from agents.placeto import networks as placeto
from agents.post import Post
from agents.post import make as post
from agents.rnn import HDPPolicy, RNNPolicy, groups
from agents.rnn import make as recurrent
from agents.rnn import make_hierarchical as hierarchical
from agents.rnn import policy as rnn
from agents.rnn.networks import Seq2Seq, UnitFeatures

PRESETS = ("paper", "rl")
METHODS: dict[str, LearnedAgent] = {
    "placeto": placeto_agent, "rnn": recurrent, "hdp": hierarchical, "post": post, "gdp": go,
}  # fmt: skip
FOLDERS = {
    "placeto": placeto_agent, "rnn": recurrent, "post": post, "gdp": go, "doppler": None,
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "placeto": {"policy": {"rounds": 1}},
    "rnn": {"policy": {"hidden": 8, "decoder": 16}},
    "hdp": {"policy": {"hidden": 8, "decoder": 16}},
    "gdp": {"policy": {"hidden": 16, "heads": 2}},
    "doppler": {"hidden": 8, "rounds": 1, "imitation": 2, "simulation": 2},
}
"""Small networks, and short stages before the first evaluation."""
FORWARD: dict[str, Steps] = {
    "placeto": [(placeto.Embedding, "forward"), (placeto.Networks, "summarize")],
    "rnn": [(UnitFeatures, "forward"), (Seq2Seq, "encode"), (Seq2Seq, "attend")],
    "hdp": [
        *((UnitFeatures, "forward"), (groups, "order_groups"), (rnn, "describe_groups")),
        *((Seq2Seq, "encode"), (Seq2Seq, "attend")),
    ],
    "gdp": [
        *((GraphSAGE, "forward"), (ModulatedLinear, "fold"), (Attention, "forward")),
        (DecisionStages, "forward"),
    ],
    "doppler": [(NodePolicy, "forward"), (DevicePolicy, "forward")],
}
"""Steps of a decision, in learning and in predicting."""
UPDATE: dict[str, Steps] = {
    "placeto": [(REINFORCE, "compute_losses")],
    "rnn": [(REINFORCE, "compute_losses")],
    "hdp": [(REINFORCE, "compute_losses")],
    "post": [(Post, "update_by_ppo"), (Post, "update_by_cross_entropy")],
    "gdp": [(UnitPPO, "compute_losses")],
    "doppler": [
        *((Doppler, "imitate_teacher"), (Doppler, "learn_on_own_schedule"), (Doppler, "improve"))
    ],
}
"""Steps of learning."""
POLICIES = {"placeto": PlacetoPolicy, "rnn": RNNPolicy, "hdp": HDPPolicy, "gdp": GOPolicy}


def make_env(name: str) -> gym.Env[Any, Any]:
    """The toy; GO decides priority and fusion there, too."""
    joint = {"schedule": "event", "decisions": ("placement", "priority", "fusion")}
    return gym.make(SIMULATED, model="tiny", **(joint if name == "gdp" else {}))


@pytest.mark.parametrize("name", UPDATE)
def test_every_step_runs_by_default(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env, forward = make_env(name), FORWARD.get(name, [])
    model = agents.make(name, env, **OPTIONS.get(name, {}))
    counts = count_calls([*forward, *UPDATE[name]], monkeypatch)
    model.learn(50 if name == "post" else 20)
    assert len(counts) == len(forward) + len(UPDATE[name])
    observation = env.reset()[0]
    for deterministic in (True, False) if name != "doppler" else ():  # placed when it has learned
        counts.clear()
        model.predict(observation, deterministic=deterministic)
        assert len(counts) == len(forward)


@pytest.mark.parametrize("name", POLICIES)
def test_every_step_runs_under_ppo(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "placeto":
        env = gym.make("placement_gym:DevicePlacementPerUnitSim-v0", model="tiny")
    else:
        env = make_env(name)
    kwargs = {**OPTIONS[name]["policy"], "graphs": env.unwrapped.graph_table(devices=True)}
    sizes = {"n_steps": 8, "batch_size": 8, "n_epochs": 1}
    model = PPO(POLICIES[name], env, policy_kwargs=kwargs, seed=0, device="cpu", **sizes)
    counts = count_calls(FORWARD[name], monkeypatch)
    model.learn(8)
    assert len(counts) == len(FORWARD[name])


def describe(value: Any) -> str:
    """A value as the tables have it; schedules are functions."""
    return value.__name__ if callable(value) else str(value)


def flatten(name: str, preset: str) -> dict[str, str]:
    """All values of a preset by their names in the tables."""
    method = FOLDERS[name]
    if method is None:
        parts: dict[str, Any] = {"settings": asdict(DOPPLER[preset])}
    else:
        known = method.presets[preset]
        parts = {**vars(known), "policy": asdict(known.policy)}
    return {
        f"{part}.{key}": describe(value)
        for part, found in parts.items()
        for key, value in found.items()
    }


def find_constant(folder: str, name: str) -> str:
    """The value of a constant of an agent's module, or of a common one."""
    module, _, constant = name.partition(".")
    home = f"common.{module}" if module == "baselines" else f"{folder}.{module}"
    home = folder if module == "presets" else home
    return describe(getattr(import_module(f"agents.{home}"), constant))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", FOLDERS)
def test_presets_have_the_values_of_the_table(name: str, preset: str) -> None:
    column = PRESETS.index(preset)
    rows = read_table(name)
    assert all(len(row) == 3 and len(row[2]) > 3 for row in rows.values())
    written = {key: row[column] for key, row in rows.items() if row[column] != "-"}
    constants = {key for key in written if key.rpartition(".")[2].isupper()}
    assert {key: written[key] for key in constants} == {
        key: find_constant(name, key) for key in constants
    }
    options = {key: value for key, value in written.items() if key not in constants}
    assert options == flatten(name, preset)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", METHODS)
def test_agents_take_what_their_preset_says(name: str, preset: str) -> None:
    model = agents.make(name, gym.make(SIMULATED, model="tiny"), preset=preset)
    known = METHODS[name].presets[preset]
    assert model.policy.options == known.policy
    assert {key: getattr(model, key) for key in known.algorithm if key != "clip_range"} == {
        key: value for key, value in known.algorithm.items() if key != "clip_range"
    }
    assert model.clip_range == 0.2 if "clip_range" in known.algorithm else True
    assert isinstance(model.policy.optimizer, torch.optim.Adam)
    assert model.policy.optimizer.defaults["eps"] == known.optimizer["eps"]
    if known.envs:
        assert model.env.num_envs == known.envs["num_envs"]


def test_settings_of_doppler_are_those_of_its_preset() -> None:
    for preset, settings in DOPPLER.items():
        agent = agents.make("doppler", gym.make(SIMULATED, model="tiny"), preset=preset)
        assert agent.settings == settings


def test_the_papers_form_sees_neither_times_nor_limits() -> None:
    made = {name: agents.make(name, tight_env(), preset="paper") for name in METHODS}
    names = [key for key, _ in made["rnn"].policy.named_parameters()]
    assert not any(key.startswith("preferences") for key in names)
    assert not bool(made["post"].policy.logits.any())
    assert not made["placeto"].policy.options.devices
    assert not made["gdp"].policy.options.devices


@pytest.mark.parametrize("name", ["rnn", "placeto"])
def test_free_memory_is_left_to_a_repair_and_to_the_paper(name: str) -> None:
    for env, preset in ((tight_env(repair=True), "rl"), (tight_env(), "paper")):
        assert not agents.make(name, env, preset=preset).policy.options.respect_memory
