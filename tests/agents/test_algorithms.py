"""Which algorithm trains which policy: the table of docs/ecosystem.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from learned import simulated, weights
from sb3_contrib import TRPO, MaskablePPO
from stable_baselines3 import A2C, PPO
from torch_geometric.nn import SAGEConv

from agents.common import REINFORCE
from agents.common.logits import LogitsPolicy
from agents.gdp import GCNPolicy, GOPolicy, UnitPPO
from agents.graph_groups import GraphGroupsPolicy
from agents.hsdag import HSDAGPolicy
from agents.placeto import PlacetoPolicy
from agents.post import Post
from agents.rnn import HDPPolicy, RNNPolicy
from placement_gym import placement_env, play_episode
from placement_gym.base.errors import UserError

ALGORITHMS = (PPO, A2C, MaskablePPO, REINFORCE, UnitPPO, Post)
RECURRENT = {"hidden": 8, "decoder": 8, "attention": 4}
POLICIES: dict[Any, dict[str, Any]] = {
    HSDAGPolicy: {"hidden": 16},
    GraphGroupsPolicy: {"hidden": 16},
    PlacetoPolicy: {"rounds": 2},
    RNNPolicy: RECURRENT,
    HDPPolicy: RECURRENT,
    GOPolicy: {"hidden": 16, "layers": 1, "devices": False},
    GCNPolicy: {"hidden": 16},
    LogitsPolicy: {},
}
REFUSED = {
    (UnitPPO, HSDAGPolicy): "use REINFORCE or PPO for HSDAGPolicy",
    (UnitPPO, GraphGroupsPolicy): "use REINFORCE or PPO for GraphGroupsPolicy",
    (UnitPPO, HDPPolicy): "use REINFORCE or PPO for HDPPolicy",
    (UnitPPO, PlacetoPolicy): "use REINFORCE or PPO for PlacetoPolicy",
    **{
        (Post, policy): f"use REINFORCE or PPO for {policy.__name__}"
        for policy in POLICIES
        if policy is not LogitsPolicy
    },
}
"""Pairs that do not work, and what their error says."""
PAGE = Path(__file__).parents[2] / "docs/ecosystem.md"


def env_of(policy: type[Any], **kwargs: Any) -> gym.Env[Any, Any]:
    name = "PerUnitSim" if policy is PlacetoPolicy else "Sim"
    return gym.make(f"placement_gym:DevicePlacement{name}-v0", model="tiny", **kwargs)


def make(algorithm: type[Any], policy: type[Any], **options: Any) -> Any:
    """A model whose rollouts have 8 steps, Post's 10."""
    settings: dict[str, Any] = {"n_steps": 10 if algorithm is Post else 8, "seed": 0}
    if algorithm in (PPO, MaskablePPO):
        settings |= {"batch_size": 8, "n_epochs": 1}
    kwargs = {**POLICIES[policy], **options}
    return algorithm(policy, env_of(policy), policy_kwargs=kwargs, device="cpu", **settings)


def train(model: Any) -> bool:
    """Train for a rollout, Post for five; returns whether weights have changed."""
    before = weights(model)
    model.learn(50 if isinstance(model, Post) else 8)
    assert torch.isfinite(weights(model)).all()
    return not torch.equal(weights(model), before)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_trains_a_policy_or_names_one_that_does(
    algorithm: type[Any], policy: type[Any]
) -> None:
    if (algorithm, policy) in REFUSED:
        with pytest.raises(UserError, match=REFUSED[algorithm, policy]):
            train(make(algorithm, policy))
    else:
        assert train(make(algorithm, policy))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_loaded_model_plays_as_it_did(algorithm: type[Any], tmp_path: Path) -> None:
    policy = LogitsPolicy if algorithm is Post else GCNPolicy
    model = make(algorithm, policy)
    train(model)
    model.save(tmp_path / "model.zip")
    env = env_of(policy)
    loaded = algorithm.load(tmp_path / "model.zip", env=env)
    infos = [play_episode(env, one) for one in (model, loaded)]
    assert infos[0]["placement_hash"] == infos[1]["placement_hash"]


@pytest.mark.parametrize("policy", POLICIES)
def test_trained_without_graphs_it_predicts_where_they_are_observed(
    policy: type[Any], tmp_path: Path
) -> None:
    env = env_of(policy, observe_graph=False)
    kwargs = {**POLICIES[policy], "graphs": placement_env(env).graph_table()}
    model = A2C(policy, env, policy_kwargs=kwargs, n_steps=8, seed=0, device="cpu").learn(8)
    model.save(tmp_path / "model.zip")
    loaded = A2C.load(tmp_path / "model.zip")
    infos = [play_episode(*one) for one in ((env, model), (env_of(policy), loaded))]
    assert infos[0]["placement_hash"] == infos[1]["placement_hash"]


def test_a_policy_of_single_steps_names_their_environment() -> None:
    model = PPO(PlacetoPolicy, env_of(PlacetoPolicy), device="cpu")
    with pytest.raises(UserError, match="one unit per step, as DevicePlacementPerUnit-v0"):
        play_episode(simulated(), model)


def test_the_page_has_the_same_table() -> None:
    rows = [line.strip("| ").split("|") for line in PAGE.read_text().splitlines() if "|" in line]
    table = {(re.findall(r"\w+", name) or [""])[0]: cells for name, *cells in rows}
    header = [cell.strip() for cell in table["policy"]]
    assert header == [algorithm.__name__ for algorithm in ALGORITHMS]
    for policy in POLICIES:
        cells = dict(zip(ALGORITHMS, table[policy.__name__], strict=True))
        said = {algorithm: cell.strip().startswith("yes") for algorithm, cell in cells.items()}
        assert said == {algorithm: (algorithm, policy) not in REFUSED for algorithm in ALGORITHMS}


def test_trpo_is_refused_with_what_trains_the_policy() -> None:
    model = TRPO(GCNPolicy, env_of(GCNPolicy), n_steps=8, device="cpu")
    with pytest.raises(UserError, match="use PPO, A2C, MaskablePPO or REINFORCE"):
        model.learn(8)


@pytest.mark.parametrize("policy", POLICIES)
def test_masks_of_the_environment_hold_under_maskable_ppo(policy: type[Any]) -> None:
    env = env_of(policy)
    model = MaskablePPO(policy, env, policy_kwargs=POLICIES[policy], device="cpu", seed=0)
    seen, _ = env.reset()
    masks = np.ones(env.get_wrapper_attr("action_masks")().shape, dtype=bool)
    masks.reshape(-1, 2)[:, 0] = False
    for deterministic in (True, False, False):
        action, _ = model.predict(seen, deterministic=deterministic, action_masks=masks)
        assert (np.asarray(action) == 1).all()
    tensors = model.policy.obs_to_tensor(seen)[0]
    actions, _, log_prob = model.policy(tensors, action_masks=masks)
    assert (actions == 1).all()
    _, again, _ = model.policy.evaluate_actions(tensors, actions, action_masks=masks)
    torch.testing.assert_close(again, log_prob)
    if policy not in (HDPPolicy, HSDAGPolicy):  # groups count there, too
        torch.testing.assert_close(log_prob, torch.zeros(1))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("option", ["net_arch", "features_extractor_class", "activation_fn"])
def test_unknown_multi_input_options_are_refused_with_the_known(
    policy: type[Any], option: str
) -> None:
    with pytest.raises(UserError, match=rf"{policy.__name__} has no option {option}") as refusal:
        PPO(policy, env_of(policy), policy_kwargs={option: [64]})
    for name in POLICIES[policy]:
        assert name in str(refusal.value)
    assert f"'MultiInputPolicy', which has {option}" in str(refusal.value)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_misspelt_option_is_refused_with_the_nearest(policy: type[Any]) -> None:
    with pytest.raises(UserError, match=rf"an option of {policy.__name__} .*'optimizer_clas'"):
        PPO(policy, env_of(policy), policy_kwargs={"optimizer_clas": torch.optim.SGD})


def test_multi_input_policy_takes_them_under_reinforce() -> None:
    kwargs = {"net_arch": [8]}
    REINFORCE("MultiInputPolicy", simulated(), policy_kwargs=kwargs, n_steps=4).learn(4)


def test_unit_ppo_refuses_a_policy_that_knows_no_units() -> None:
    with pytest.raises(UserError, match="use REINFORCE or PPO"):
        UnitPPO("MultiInputPolicy", simulated())


def test_hsdag_takes_a_convolution_of_pytorch_geometric(tmp_path: Path) -> None:
    kwargs = {"conv": SAGEConv, "hidden": 16}
    model = PPO(HSDAGPolicy, simulated(), policy_kwargs=kwargs, n_steps=16, batch_size=16)
    model.learn(16)
    model.save(tmp_path / "model.zip")
    loaded = PPO.load(tmp_path / "model.zip")
    assert torch.equal(weights(loaded), weights(model))
