"""The vector environment of a stream of problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

from placement_gym.base import BoolArray, FloatArray, UserError, check_integer
from placement_gym.envs.stream import StreamEnv, read_weights
from placement_gym.envs.vector import Info, SameStepVectorEnv
from placement_gym.solvers.list_policy import find_best_of_each


class StreamVectorEnv(SameStepVectorEnv[Any, Any], VectorEnv[Any, Any, NDArray[Any]]):
    """``gym.make_vec("DevicePlacementStream-v0", num_envs=k)``: k streams at once.

    Every step ends all episodes and starts the next ones (``AutoresetMode.SAME_STEP``);
    ``final_obs`` and ``final_info`` hold the end. Observations and rewards equal those of k single
    environments with the same seeds.

    Args:
        num_envs: Episodes per step.
        max_episode_steps: Steps after which episodes are truncated; an episode has one.
        kwargs: As for ``StreamEnv``, which raises errors about them.
    """

    def __init__(
        self, num_envs: int = 1, max_episode_steps: int | None = None, **kwargs: Any
    ) -> None:
        check_integer("num_envs", num_envs, 1)
        self.envs = [StreamEnv(**kwargs) for _ in range(num_envs)]
        env = self.envs[0]
        self.set_spaces(num_envs, env, env.observation_space, max_episode_steps)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, Info]:
        """Start an episode in every environment; see ``StreamEnv.reset``.

        ``seed``: one for each environment, or the first of consecutive ones.
        """
        seeds = self.list_seeds(seed)
        begun = [
            env.reset(seed=each, options=options)
            for env, each in zip(self.envs, seeds, strict=True)
        ]
        return self.batch([observation for observation, _ in begun]), self.gather(
            [info for _, info in begun]
        )

    def step(self, actions: NDArray[Any]) -> tuple[Any, FloatArray, BoolArray, BoolArray, Info]:
        """Place the problem of every environment, and start the next episodes.

        Raises:
            UserError: The actions have another shape or range.
        """
        if len(actions) != self.num_envs:
            raise UserError(f"actions must be {self.num_envs}, one each, not {len(actions)}")
        ended = self.place(actions)
        begun = [env.reset() for env in self.envs]
        finals, rewards, _, _, infos = zip(*ended, strict=True)
        always = np.ones(self.num_envs, dtype=np.bool_)
        ends = self.report_ends([*finals], self.gather([*infos]))
        info = self.gather([info for _, info in begun]) | ends
        return (
            self.batch([observation for observation, _ in begun]),
            np.array(rewards),
            always,
            np.full(self.num_envs, self.max_episode_steps == 1),
            info,
        )

    def place(self, actions: NDArray[Any]) -> list[Any]:
        """The result of ``step`` in each environment; one call makes all list schedules."""
        if not self.envs[0].weighted:
            return [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        results = find_best_of_each(
            [env.current.scheduler for env in self.envs],
            read_weights(actions, self.num_envs),
            [env.make_tastes() for env in self.envs],
        )
        return [env.finish(*result) for env, result in zip(self.envs, results, strict=True)]

    def render(self) -> tuple[Any, ...] | None:
        """Render the last placement of each environment."""
        return None if self.render_mode is None else tuple(env.render() for env in self.envs)

    def batch(self, observations: list[Any]) -> Any:
        empty: Any = create_empty_array(self.single_observation_space, self.num_envs)
        return concatenate(self.single_observation_space, observations, empty)

    def gather(self, infos: list[Info]) -> Info:
        """Stack infos, each key with its mask."""
        return self.mask({key: np.array([info[key] for info in infos]) for key in infos[0]})
