"""The base of vector environments whose episodes begin again in the step that ends them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.core import ActType, ObsType
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from placement_gym.base import UserError, check_integer
from placement_gym.envs.options import RENDER_MODES

Info = dict[str, Any]


class SameStepVectorEnv(VectorEnv[ObsType, ActType, NDArray[Any]]):
    """The base: spaces, seeds, masks of infos, and how the end of an episode is reported."""

    metadata = {  # noqa: RUF012  as VectorEnv declares it
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": RENDER_MODES,
        "render_fps": 1,
    }
    autoreset_mode = AutoresetMode.SAME_STEP
    """As ``SyncVectorEnv`` has it, where torchrl looks for it."""

    def set_spaces(
        self,
        num_envs: int,
        env: gym.Env[Any, Any],
        observation: gym.Space[Any],
        max_episode_steps: int | None,
    ) -> None:
        """Set the number of environments, and the spaces of one and of all.

        Args:
            num_envs: Their number.
            env: One of them.
            observation: The space of its observations.
            max_episode_steps: Steps after which episodes are truncated, as ``TimeLimit`` does.
        """
        if max_episode_steps is not None:
            check_integer("max_episode_steps", max_episode_steps, 1)
        self.max_episode_steps = max_episode_steps or np.inf
        self.num_envs, self.render_mode, action = num_envs, env.render_mode, env.action_space
        self.single_observation_space, self.single_action_space = observation, action
        self.observation_space = batch_space(observation, num_envs)
        self.action_space = batch_space(action, num_envs)

    def list_seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        """The seed of each environment.

        Args:
            seed: A seed for each environment, or the first of consecutive ones.

        Raises:
            UserError: There is not one seed per environment.
        """
        if seed is None:
            return [None] * self.num_envs
        seeds = range(seed, seed + self.num_envs) if isinstance(seed, int) else seed
        if len(seeds) != self.num_envs:
            raise UserError(f"seed must be a list of {self.num_envs} seeds, not {len(seeds)}")
        return seeds

    def mask(self, values: Info) -> Info:
        """Values of all environments, each key with its mask."""
        return values | {f"_{key}": np.ones(self.num_envs, dtype=np.bool_) for key in values}

    def report_ends(self, observations: Iterable[Any], info: Info) -> Info:
        """Add the last infos of episodes that have ended to the info of those that begin.

        Args:
            observations: (num_envs,) the last of each environment.
            info: The last of all.
        """
        final = np.empty(self.num_envs, dtype=object)
        for number, observation in enumerate(observations):
            final[number] = observation
        return self.mask({"final_obs": final, "final_info": info})
