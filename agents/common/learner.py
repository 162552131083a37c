"""What the algorithms of this package share: saving and loading, logging, threads."""

from __future__ import annotations

import sys
from typing import Any, Self

from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import HumanOutputFormat, Logger
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.vec_env import VecEnv

from agents.common.loading import explain_mismatch, fit_env
from agents.common.threads import limit_threads
from placement_gym.envs.env import DevicePlacementEnv


class OnPolicyLearner(OnPolicyAlgorithm):
    """``OnPolicyAlgorithm`` of SB3 for placement environments.

    Models of ``agents.make`` also take environments of ``gym.make``, in ``load`` and ``set_env``.
    Nothing is written unless ``tensorboard_log`` says where.
    """

    @classmethod
    def load(cls, path: Any, env: GymEnv | None = None, **kwargs: Any) -> Self:  # type: ignore[override]
        """See SB3; load your own files alone, as they are pickled.

        Args:
            path: A file that ``save`` wrote.
            env: The environment to go on in; None predicts alone. An environment of ``gym.make``
                is vectorised as that of the training was, with its own reward.
            kwargs: As for SB3.

        Raises:
            UserError: Its weights do not fit, as after a change of features.
        """
        if env is not None and not isinstance(env, VecEnv):
            known: Any = load_from_zip_file(path, custom_objects=kwargs.get("custom_objects"))[0]
            env = cls.fit_env(env, known)
        with explain_mismatch(path):
            return super().load(path, env, **kwargs)

    @classmethod
    def fit_env(cls, env: Any, known: dict[str, Any]) -> Any:
        """An environment as a model was trained in; see ``loading.fit_env``.

        Args:
            env: One that is not vectorised.
            known: The model's attributes by name.
        """
        return fit_env(env, known["observation_space"], known["action_space"], known["n_envs"])

    def set_env(self, env: GymEnv, force_reset: bool = True) -> None:
        """See SB3; an environment of ``gym.make`` is vectorised as that of the training was."""
        fitting = env if isinstance(env, VecEnv) else self.fit_env(env, vars(self))
        super().set_env(fitting, force_reset)

    def find_base(self) -> DevicePlacementEnv | None:
        """The placement environment that it is trained in, the first of several."""
        if self.env is None or not isinstance(self.observation_space, spaces.Dict):
            return None
        found = self.env.get_attr("unwrapped")[0]
        return found if isinstance(found, DevicePlacementEnv) else None

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:
        """See SB3, whose default logger makes a folder that stays empty."""
        silent = not self._custom_logger and self.tensorboard_log is None
        if silent:
            self.set_logger(make_logger(self.verbose))
        try:
            return super()._setup_learn(
                total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
            )
        finally:
            self._custom_logger = self._custom_logger and not silent

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 10,
        tb_log_name: str = "",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """See ``OnPolicyAlgorithm.learn``; small graphs are trained on with one torch thread."""
        with limit_threads(self.observation_space):
            return super().learn(
                total_timesteps,
                callback,
                log_interval,
                tb_log_name or type(self).__name__,
                reset_num_timesteps,
                progress_bar,
            )


def make_logger(verbose: int = 0) -> Logger:
    """A logger that makes no folder, and prints if ``verbose`` is set."""
    return Logger(None, [HumanOutputFormat(sys.stdout)] if verbose else [])
