from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sb3_contrib import RecurrentPPO
from stable_baselines3 import DQN, PPO

from placement_gym.envs.online.choosers import make_chooser
from placement_gym.envs.online.env import OnlineEnv

KINDS: list[tuple[Any, str, dict[str, Any]]] = [
    (PPO, "MlpPolicy", {}),
    (DQN, "MlpPolicy", {}),
    (RecurrentPPO, "MlpLstmPolicy", {"policy_kwargs": {"lstm_hidden_size": 4}}),
]


@pytest.mark.parametrize(("kind", "network", "kwargs"), KINDS)
def test_a_chooser_decides_as_predict_does(
    kind: Any, network: str, kwargs: dict[str, Any], env: OnlineEnv
) -> None:
    policy = kind(network, env, seed=0, device="cpu", **kwargs)
    seen = np.random.default_rng(0).random((40, *env.observation_space.shape), np.float32)
    seen *= 8.0
    choose, state, start, expected = make_chooser(policy), None, np.ones(1, np.bool_), []
    for one in seen:
        action, state = policy.predict(one, state, start, deterministic=True)
        expected.append(int(action))
        start = np.zeros(1, np.bool_)
    assert [int(choose(one)) for one in seen] == expected
    assert len(set(expected)) > 1


def test_perceptrons_run_without_predict(env: OnlineEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, seen = PPO("MlpPolicy", env, device="cpu"), env.reset(seed=0)[0]
    monkeypatch.setattr(policy, "predict", None)
    choose = make_chooser(policy)
    assert choose(seen) == choose(np.stack([seen, seen]))[1]


@pytest.fixture(scope="module")
def env() -> OnlineEnv:
    return OnlineEnv(["tiny", "cnn"], ["CPU", {"name": "GPU", "weight_share": 0.6}])
