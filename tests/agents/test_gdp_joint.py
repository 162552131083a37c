# White-box tests of agents.gdp
"""GO's further stages: priority and fusion, learned with the placement."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from learned import MAKERS, SMALL_GO, first_observation
from learned import small_go as agent
from stable_baselines3 import PPO

from agents.common import FORBIDDEN
from agents.gdp import make, make_gcn
from agents.gdp.policy import GOPolicy
from agents.gdp.ppo import UnitPPO
from agents.gdp.stages import StagedLikelihood, read_parts
from placement_gym.base import UserError
from placement_gym.envs import placement_env
from placement_gym.problem import DECISIONS

SETS = (DECISIONS[:1], DECISIONS[:2], DECISIONS[::2], DECISIONS)


def joint(decisions: Any = DECISIONS, **kwargs: Any) -> Any:
    kwargs = {"model": "tiny", "schedule": "event", "devices": "cpu+igpu", **kwargs}
    made = gym.make("placement_gym:DevicePlacementSim-v0", decisions=decisions, **kwargs)
    return placement_env(made, joint=True)


def sample(model: Any, k: int = 6) -> tuple[Any, torch.Tensor, StagedLikelihood]:
    """Observations, sampled actions and their likelihood."""
    seen = first_observation(model.env)
    seen = {key: value[:1].expand(k, *value.shape[1:]) for key, value in seen.items()}
    distribution = model.policy.decide(seen).distribution
    actions = distribution.get_actions()
    return seen, actions, distribution.conditioned_on(actions)


@pytest.mark.parametrize(
    ("decisions", "algorithm"), [*((one, "ppo") for one in SETS), (DECISIONS, "reinforce")]
)
def test_it_learns_and_predicts_whatever_is_decided(
    decisions: tuple[str, ...], algorithm: str
) -> None:
    env = joint(decisions)
    model = agent(env, make=MAKERS[algorithm])
    before = {name: p.detach().clone() for name, p in model.policy.named_parameters()}
    model.learn(20)
    action, _ = model.predict(env.reset()[0], deterministic=True)
    assert env.action_space.contains(np.asarray(action))
    still = [n for n, p in model.policy.named_parameters() if torch.equal(p, before[n])]
    assert still == ["head.score.bias"]  # the same for all devices: it changes nothing


def test_parts_of_actions_are_told_apart() -> None:
    for decisions in SETS:
        env = joint(decisions, devices=["CPU", *(f"GPU.{i}" for i in range(7))])
        parts = read_parts(env.action_space.nvec, env.problem.n_units)
        assert tuple(parts) == decisions
        assert sum(parts.values()) == len(env.action_space.nvec)
        assert parts["placement"] == env.problem.n_units


def test_bits_are_decided_only_where_both_ends_share_a_device() -> None:
    env = joint()
    model = agent(env)
    _, actions, likelihood = sample(model, 40)
    n = env.problem.n_units
    ends = torch.as_tensor(env.problem.units.quotient.edge_index)
    cut = actions[:, ends[0]] != actions[:, ends[1]]
    bits = actions[:, 2 * n :]
    assert cut.any()
    assert not bits[cut].any()
    assert bits[~cut].any()
    of_bits = likelihood.unit_log_prob(actions)[:, 2 * n :]
    assert not of_bits[cut].any()
    assert (of_bits[~cut] < 0).all()


def test_each_stage_reads_what_the_stage_before_decided() -> None:
    env = joint()
    model = agent(env)
    seen, actions, before = sample(model, 1)
    n = env.problem.n_units
    for changed, stage in ((0, 1), (n, 2)):
        other = actions.clone()
        other[:, changed] = 1 - other[:, changed].clamp(max=1)
        after = model.policy.decide(seen).distribution.conditioned_on(other)
        same = [
            torch.equal(mine.state_log_probs, its.state_log_probs)
            for mine, its in zip(before.stages, after.stages, strict=True)
        ]
        assert all(same[:stage])
        assert not same[stage]


@pytest.mark.parametrize("decisions", [DECISIONS[:1], DECISIONS])
def test_the_first_step_of_ppo_is_that_of_reinforce(decisions: tuple[str, ...]) -> None:
    after = []
    for algorithm in ("ppo", "reinforce"):
        model = agent(joint(decisions), make=MAKERS[algorithm], n_epochs=1)
        model.learn(20)
        after.append(torch.nn.utils.parameters_to_vector(model.policy.parameters()))
    torch.testing.assert_close(*after)


def test_the_likelihood_is_that_of_the_rollout() -> None:
    model = agent(joint())
    seen, actions, likelihood = sample(model)
    _, log_prob, entropy = model.policy.evaluate_actions(seen, actions)
    torch.testing.assert_close(log_prob, likelihood.unit_log_prob(actions).sum(dim=1))
    assert (entropy > 0).all()


def test_masks_restrict_the_devices() -> None:
    env = joint()
    model = agent(env)
    seen, actions, _ = sample(model)
    masks = np.tile(env.action_masks(), (len(actions), 1))
    masks[:, 0] = False
    masked, _ = model.policy.decide_within(seen, masks)
    assert (masked.get_actions()[:, 0] == 1).all()
    likelihood = masked.conditioned_on(torch.zeros_like(actions))
    assert (likelihood.log_prob(actions * 0) < FORBIDDEN / 2).all()


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    env = joint()
    model = agent(env)
    model.learn(20)
    model.save(tmp_path / "go.zip")
    loaded = UnitPPO.load(tmp_path / "go.zip")
    observation = env.reset()[0]
    expected, found = (one.predict(observation, deterministic=True)[0] for one in (model, loaded))
    np.testing.assert_array_equal(found, expected)


def test_the_convolutions_place_units_alone() -> None:
    with pytest.raises(UserError, match=r"decisions=\('placement',\)"):
        make_gcn(joint(), 0)


@pytest.mark.slow
def test_sb3s_ppo_takes_all_decisions() -> None:
    env = joint()
    model = PPO(
        GOPolicy,
        env,
        n_steps=16,
        batch_size=8,
        n_epochs=1,
        policy_kwargs=SMALL_GO | {"devices": False},
    )
    model.learn(16)
    action, _ = model.predict(env.reset()[0], deterministic=True)
    assert env.action_space.contains(np.asarray(action))


@pytest.mark.slow
def test_it_finds_more_than_any_placement_alone_has() -> None:
    env = joint(granularity="op")
    placements = np.array(list(product(range(2), repeat=env.problem.n_units)))
    alone = env.evaluate_batch(placements)[1].speedup.max()
    model = make(env, 0, policy={"hidden": 32})
    model.learn(1500)
    action, _ = model.predict(env.reset()[0], deterministic=True)
    assert env.evaluate(np.asarray(action)).speedup > 1.3 * alone
