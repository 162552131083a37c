"""One episode of any policy in any of the environments."""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium as gym


class Policy(Protocol):
    """An agent that can be benchmarked, as Stable-Baselines3's models can."""

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """The action for an observation, and the next recurrent state."""
        ...


def play_episode(
    env: gym.Env[Any, Any], policy: Policy, deterministic: bool = True, seed: int | None = None
) -> dict[str, Any]:
    """Play one episode and return its last info."""
    observation, info = env.reset(seed=seed)
    state, done, first = None, False, True
    while not done:
        action, state = policy.predict(observation, state, first, deterministic)
        observation, _, terminated, truncated, info = env.step(action)
        done, first = terminated or truncated, False
    return info
