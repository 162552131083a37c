"""``PlacementVectorEnv`` as a ``VecEnv`` of SB3."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from placement_gym.base.arrays import IntArray
from placement_gym.envs.placement_env import placement_env
from placement_gym.envs.vector import PlacementVectorEnv


class PlacementVecEnv(VecEnv):
    """``PlacementVectorEnv`` for SB3's algorithms; see ``vectorize``.

    Infos hold, for each environment, latency_ms, reference_ms, best_single_ms, speedup,
    speedup_vs_best_single, feasible and repaired; at the end of an episode also ``episode``, as
    SB3's ``Monitor`` records it, and ``terminal_observation``.

    Args:
        envs: As ``PlacementVectorEnv(env, 20)`` or
            ``gym.make_vec("DevicePlacementSim-v0", 20, model="resnet").unwrapped``.
    """

    actions: IntArray

    def __init__(self, envs: PlacementVectorEnv) -> None:
        self.envs = envs
        self.started = perf_counter()
        self.returns = np.zeros(envs.num_envs)
        self.lengths = 0
        assert isinstance(envs.single_observation_space, spaces.Dict)
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> VecEnvObs:
        """Reset all episodes, with the seeds that ``seed`` has set."""
        seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
        observation, _ = self.envs.reset(seed=seeds)
        self._reset_seeds()
        self.returns[:], self.lengths = 0.0, 0
        return observation

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take (num_envs, N) devices for ``step_wait``."""
        self.actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Evaluate the placements of ``step_async``."""
        observation, rewards, terminated, _, info = self.envs.step(self.actions)
        self.returns += rewards
        self.lengths += 1
        # SB3 expects the last observation of an episode in its info, Gymnasium beside the infos.
        finals, final_observations = info.pop("final_info", info), info.pop("final_obs", None)
        infos = [
            {key: value[i] for key, value in finals.items() if not key.startswith("_")}
            for i in range(self.num_envs)
        ]
        if final_observations is not None:
            self.add_episode_infos(infos, final_observations)
        return observation, rewards.astype(np.float32), terminated, infos

    def add_episode_infos(self, infos: list[dict[str, Any]], observations: NDArray[Any]) -> None:
        """Add what SB3 expects in the infos of episodes that end in this step."""
        time = round(perf_counter() - self.started, 6)
        for i, info in enumerate(infos):
            info["terminal_observation"] = observations[i]
            info["TimeLimit.truncated"] = False
            info["episode"] = {"r": float(self.returns[i]), "l": self.lengths, "t": time}
        self.returns[:], self.lengths = 0.0, 0

    def close(self) -> None:
        """Close the environment."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """The attribute of the shared environment, once per index."""
        return [getattr(self.envs.env, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of the shared environment."""
        setattr(self.envs.env, attr_name, value)

    def env_method(
        self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any
    ) -> list[Any]:
        """Call a method of the shared environment, once per index."""
        method = getattr(self.envs.env, method_name)
        return [method(*args, **kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        """True for ``Monitor``, whose infos are provided; False for every other wrapper."""
        name = getattr(wrapper_class, "__name__", "")
        return [name == "Monitor" for _ in self._get_indices(indices)]


def vectorize(env: gym.Env[Any, Any], joint: bool = False, **kwargs: Any) -> PlacementVecEnv:
    """Make a ``VecEnv`` that evaluates many placements of one environment per step.

    Observations carry no graph; pass ``env.unwrapped.graph_table()`` to policies.

    Args:
        env: Its budget and backend are used.
        joint: Whether the caller also decides priority and fusion.
        kwargs: Arguments of ``PlacementVectorEnv``.

    Raises:
        UserError: The environment has further decisions, and ``joint`` is False.
    """
    base = placement_env(env, joint)
    return PlacementVecEnv(PlacementVectorEnv(base, observe_graph=False, **kwargs))
