"""Trainings for ``online.py``: SB3's algorithms, and behaviour cloning, with their settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

from placement_gym.envs.online import OnlineEnv
from placement_gym.envs.online.observation import Seen
from placement_gym.envs.online.rules import make_rule

N_ENVS = 128
"""Environments of a training; 32, with longer rollouts, gain less on validation traces."""
MIN_REQUESTS = 16
"""Smallest number of requests of a training: a rollout of one environment."""
RATE = 0.6
"""Rate of the traces of a training. Rewards vary less where queues are short: on validation traces
a training at 0.8 or 1 is worse at all rates up to 1.4."""
PPO_SETTINGS: dict[str, Any] = {
    "n_steps": 16,
    "batch_size": 512,
    "n_epochs": 6,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "learning_rate": 5e-4,
    "ent_coef": 0.002,
}
CLONE_SHARE = {"clone": 1.0, "clone-ppo": 0.2}
"""Share of a training's requests in which a policy learns to choose as ``TEACHER``."""
TEACHER = "lookahead"
"""The rule to clone; rollouts are better, but take more than ten times as long."""
CLONE_EPOCHS, CLONE_BATCH, CLONE_LEARNING_RATE = 15, 512, 1e-3
"""Epochs, batch and learning rate of cloning. Hand-tuned."""
make_ppo = partial(PPO, "MlpPolicy", **PPO_SETTINGS)
LEARNERS: dict[str, Callable[..., BaseAlgorithm]] = {
    "ppo": make_ppo,
    "clone": make_ppo,
    "clone-ppo": partial(make_ppo, learning_rate=2e-4),
    "a2c": partial(A2C, "MlpPolicy", n_steps=8, gamma=0.99, gae_lambda=0.95, ent_coef=0.002),
    "dqn": partial(
        DQN,
        "MlpPolicy",
        gamma=0.99,
        learning_rate=5e-4,
        buffer_size=100_000,
        batch_size=256,
        train_freq=1,
        gradient_steps=8,
        target_update_interval=2000,
        exploration_fraction=0.3,
    ),
    "recurrent-ppo": partial(
        RecurrentPPO, "MlpLstmPolicy", **PPO_SETTINGS, policy_kwargs={"lstm_hidden_size": 64}
    ),
}


def train(name: str, seed: int, budget: int, **kwargs: Any) -> BaseAlgorithm:
    """Train one of ``LEARNERS`` on whole rollouts within ``budget`` requests; return it.

    ``kwargs`` are those of ``OnlineEnv`` but for the rate and the trace, which is ``"train"``.
    """
    n_envs = min(N_ENVS, budget // MIN_REQUESTS)
    envs = DummyVecEnv([partial(OnlineEnv, rate=RATE, **kwargs)] * n_envs)
    model = LEARNERS[name](env=envs, seed=seed, device="cpu")
    n_cloned = int(CLONE_SHARE.get(name, 0.0) * budget)
    if n_cloned:
        clone(model.policy, OnlineEnv(rate=RATE, **kwargs), seed, n_cloned)
    rollout = n_envs * getattr(model, "n_steps", 1)
    return model.learn((budget - n_cloned) // rollout * rollout)


def clone(policy: Any, env: OnlineEnv, seed: int, n_requests: int) -> None:
    """Fit a policy of SB3 to the choices of ``TEACHER`` for some requests, by cross-entropy."""
    rule, (seen, _) = make_rule(TEACHER, env), env.reset(seed=seed)
    steps: list[tuple[Seen, int]] = []
    while len(steps) < n_requests:
        plan = int(rule.predict(seen)[0])
        steps.append((seen, plan))
        seen, _, _, over, _ = env.step(plan)
        if over:
            seen, _ = env.reset()
    observations, plans = (torch.as_tensor(np.array(part)) for part in zip(*steps, strict=True))
    optimizer = torch.optim.Adam(policy.parameters(), CLONE_LEARNING_RATE)
    for _ in range(CLONE_EPOCHS):
        for batch in torch.split(torch.randperm(n_requests), CLONE_BATCH):
            _, log_prob, _ = policy.evaluate_actions(observations[batch], plans[batch])
            optimizer.zero_grad()
            loss = -log_prob.mean()
            loss.backward()
            optimizer.step()
