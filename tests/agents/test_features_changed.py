"""Models that were saved with other features or observations are refused with the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from learned import hsdag, simulated, vectorize_toy

from agents.common import REINFORCE, encoder
from agents.common.checkpoint import restore, save
from agents.hsdag import HSDAGPolicy
from placement_gym.base.errors import UserError


@pytest.fixture
def fewer_features(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Observations whose first feature policies do not know, as those of an older version."""
    known = encoder.select_columns
    monkeypatch.setattr(encoder, "select_columns", lambda features: known(features)[1:])
    return monkeypatch


def test_a_saved_model_of_other_features_is_refused(
    fewer_features: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hsdag(vectorize_toy()).save(tmp_path / "model.zip")
    fewer_features.undo()
    with pytest.raises(UserError, match="train it again"):
        REINFORCE.load(tmp_path / "model.zip")


def test_a_checkpoint_of_other_features_is_refused(
    fewer_features: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    save(hsdag(vectorize_toy()), tmp_path / "model.safetensors")
    fewer_features.undo()
    model = hsdag(vectorize_toy())
    before = torch.nn.utils.parameters_to_vector(model.policy.parameters()).clone()
    with pytest.raises(UserError, match=r"features.*or train again"):
        restore(model, tmp_path / "model.safetensors")
    assert torch.equal(before, torch.nn.utils.parameters_to_vector(model.policy.parameters()))


def test_a_checkpoint_of_another_policy_names_both(tmp_path: Path) -> None:
    save(hsdag(vectorize_toy()), tmp_path / "model.safetensors")
    other = REINFORCE("MultiInputPolicy", vectorize_toy(), device="cpu")
    both = r"saved by REINFORCE with policy HSDAGPolicy; this model is REINFORCE with policy Multi"
    with pytest.raises(UserError, match=both):
        restore(other, tmp_path / "model.safetensors")


def test_observation_without_a_policys_keys_is_refused() -> None:
    env = simulated(observe_devices=True)
    policy = HSDAGPolicy(env.observation_space, env.action_space, lambda _: 1e-3, hidden=16)
    policy.predict(env.reset()[0], deterministic=True)
    without, _ = simulated().reset()
    with pytest.raises(UserError, match="observe_devices=True"):
        policy.predict(without, deterministic=True)


def test_more_than_a_policy_was_made_for_changes_nothing() -> None:
    env = simulated()
    policy = HSDAGPolicy(env.observation_space, env.action_space, lambda _: 1e-3, hidden=16)
    plain = policy.predict(env.reset()[0], deterministic=True)[0]
    more, _ = simulated(observe_devices=True).reset()
    assert policy.predict(more, deterministic=True)[0].tolist() == plain.tolist()
