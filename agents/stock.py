"""Stable-Baselines3's unchanged PPO with settings for few placements: a floor for learners."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

from placement_gym.envs import placement_env


class StepExtractor(BaseFeaturesExtractor):
    """Reads the step of the episode alone.

    On one problem, episodes of one placement always begin with the same observation, so PPO learns
    one table of probabilities. The graph would only make its network larger.
    """

    def __init__(self, observation_space: spaces.Dict) -> None:
        super().__init__(observation_space, features_dim=1)

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """(B, 1) steps, in the scale of observations."""
        return observations["step"].float()


def ppo(env: Any, seed: int = 0, n_steps: int = 10, learning_rate: float = 3e-3) -> PPO:
    """Make Stable-Baselines3's PPO, which places all units at once.

    Args:
        env: A placement environment.
        seed: Seed of all random numbers.
        n_steps: Placements of an update, all of which each gradient step reads.
        learning_rate: Of Adam. This default and that of ``n_steps`` were chosen on validation
            problems at 100 placements.

    Raises:
        TypeError: ``env`` is not a placement environment.
    """
    placement_env(env, joint=True)
    return PPO(
        "MultiInputPolicy",
        env,
        seed=seed,
        device="cpu",
        n_steps=n_steps,
        batch_size=n_steps,
        learning_rate=learning_rate,
        policy_kwargs={"features_extractor_class": StepExtractor},
    )
