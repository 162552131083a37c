"""The base of this package's algorithms: loading, logging, threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.logger import HumanOutputFormat, Logger
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv, VecEnvWrapper

from agents.common.evaluated import Evaluated, WatchRollouts
from agents.common.vec_env import PlacementVecEnv, vectorize
from agents.common.weights import explain_mismatch
from placement_gym.base.arguments import check_integer
from placement_gym.base.arrays import IntArray
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import Policy
from placement_gym.envs.placement_env import find_placement_env
from placement_gym.envs.scaling import read_current_unit, read_graph_id
from placement_gym.envs.sizes import check_sizes, read_sizes

SMALL_GRAPH = 5_000
"""Units below which one torch thread was faster than several in our measurements."""
ACTION_SPACES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
SETTINGS_OF_THE_USER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


class OnPolicyLearner(OnPolicyAlgorithm):
    """``OnPolicyAlgorithm`` of SB3 for placement environments.

    Models of ``agents.make`` also take environments of ``gym.make``, in ``load`` and ``set_env``.
    Nothing is written without ``tensorboard_log``.

    Args:
        policy: A policy class, or an alias of SB3.
        env: The environment, or its id.
        kwargs: Arguments of ``OnPolicyAlgorithm``.
    """

    def __init__(
        self, policy: str | type[ActorCriticPolicy], env: GymEnv | str | None, **kwargs: Any
    ) -> None:
        super().__init__(
            policy,
            env,  # type: ignore[arg-type]
            **{
                "gae_lambda": 1.0,
                "use_sde": False,
                "sde_sample_freq": -1,
                "supported_action_spaces": ACTION_SPACES,
                **kwargs,
            },
        )
        self.evaluated = Evaluated()
        self.answers: dict[int, IntArray] = {}

    @classmethod
    def load(cls, path: Any, env: GymEnv | None = None, **kwargs: Any) -> Self:  # type: ignore[override]
        """See SB3; load your own files alone, as they are pickled.

        Args:
            path: A file that ``save`` wrote.
            env: The environment to go on in; None predicts alone. An environment of ``gym.make``
                is vectorised as that of the training was, with its own reward.
            kwargs: As for SB3.

        Raises:
            UserError: Its weights do not fit, as after a change of features; or the environment
                has other sizes.
        """
        if env is not None:
            attributes: Any = load_from_zip_file(path, custom_objects=kwargs.get("custom_objects"))[
                0
            ]
            env = env if isinstance(env, VecEnv) else cls.fit_env(env, attributes)
            check_sizes(
                read_sizes(attributes["observation_space"]), read_sizes(env.observation_space)
            )
        with explain_mismatch(path):
            return super().load(path, env, **kwargs)

    @classmethod
    def fit_env(cls, env: Any, attributes: dict[str, Any]) -> Any:
        """Make an environment as a model was trained in.

        ``agents.make`` trains on many placements at once and without the graph in observations, so
        the spaces of its models are not those of ``gym.make``.

        Args:
            env: Any environment that is not vectorised, or its id; all but placement environments
                are returned as they are.
            attributes: The model's attributes by name.
        """
        observation_space = attributes["observation_space"]
        action_space = attributes["action_space"]
        if isinstance(env, str):
            env = gym.make(env)
        # Only a placement environment whose training was vectorised needs a change; everything else
        # is left to the checks of SB3.
        if env.observation_space == observation_space or env.action_space != action_space:
            return env
        if not isinstance(observation_space, spaces.Dict) or not isinstance(
            action_space, spaces.MultiDiscrete
        ):
            return env
        if "x" in observation_space.spaces:
            return env
        step: Any = observation_space["step"]
        return vectorize(env, joint=True, num_envs=attributes["n_envs"], horizon=step.count)

    def set_env(self, env: GymEnv, force_reset: bool = True) -> None:
        """See SB3; an environment of ``gym.make`` is vectorised as that of the training was.

        It then also has the reward of the training. The number of environments may differ, as a
        smaller one where evaluations are expensive. Weights and optimizer stay; statistics of the
        former environment's returns are dropped.

        Raises:
            UserError: The environment has other sizes than that of the training.
        """
        training_env: Any = env
        if not isinstance(env, VecEnv):
            training_env = self.fit_env(env, vars(self))
            if isinstance(training_env, PlacementVecEnv) and isinstance(self.env, PlacementVecEnv):
                training_env.envs.reward = self.env.envs.reward
        check_sizes(read_sizes(self.observation_space), read_sizes(training_env.observation_space))
        if isinstance(training_env, VecEnv) and training_env.num_envs != self.n_envs:
            self.resize_rollouts(training_env.num_envs)
        super().set_env(training_env, force_reset)
        self.forget_returns()

    def resize_rollouts(self, n_envs: int) -> None:
        """Make a rollout buffer for another number of environments."""
        assert self.rollout_buffer_class is not None
        self.n_envs = n_envs
        self.rollout_buffer = self.rollout_buffer_class(
            self.n_steps,
            self.observation_space,
            self.action_space,
            device=self.device,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            n_envs=n_envs,
            **self.rollout_buffer_kwargs,
        )

    def forget_returns(self) -> None:
        """Drop statistics of the former environment's returns, which may have another scale."""
        self.evaluated.best.clear()
        self.answers.clear()

    def find_base(self) -> DevicePlacementEnv | None:
        """Find the first placement environment of the training."""
        return next(iter(self.find_bases().values()), None)

    def find_bases(self) -> dict[int, DevicePlacementEnv]:
        """Find the placement environments by ``graph_id``; none in other processes."""
        inner = self.env
        while isinstance(inner, VecEnvWrapper):
            inner = inner.venv
        if inner is None or isinstance(inner, SubprocVecEnv):
            return {}
        bases = [find_placement_env(env) for env in inner.get_attr("unwrapped")]
        return {base.observer.graph_id: base for base in reversed(bases) if base is not None}

    def _setup_learn(self, *args: Any, **kwargs: Any) -> tuple[int, BaseCallback]:
        """See SB3, whose default logger makes a folder that stays empty."""
        # The default of SB3 is a folder below /tmp, even with nothing to write into it.
        silent = not self._custom_logger and self.tensorboard_log is None
        if silent:
            self.set_logger(make_logger(self.verbose))
        try:
            return super()._setup_learn(*args, **kwargs)
        finally:
            self._custom_logger = self._custom_logger and not silent

    def _init_callback(self, callback: MaybeCallback, progress_bar: bool = False) -> BaseCallback:
        """See SB3; also records the evaluations."""
        watch = WatchRollouts(self.evaluated, self.find_base())
        if callback is None:
            return super()._init_callback(watch, progress_bar)
        if not isinstance(callback, BaseCallback | list):
            callback = ConvertCallback(callback)
        callbacks = callback if isinstance(callback, list) else [callback]
        return super()._init_callback([watch, *callbacks], progress_bar)

    @property
    def greedy(self) -> Policy:
        """The policy, which predicts its most likely decisions whatever was evaluated."""
        return self.policy

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """The agent's answer for an observation, or with ``deterministic=False`` a sample.

        After ``learn``, the deterministic answer for the problem of the training is the better of
        the policy's greedy placement and the best one that was evaluated, so that it is feasible
        if any was; for other problems it is greedy. ``model.greedy.predict`` is always greedy.
        """
        actions, state = self.greedy.predict(observation, state, episode_start, deterministic)
        if deterministic and self.answers and "graph_id" in observation:
            actions = self.insert_answers(observation, actions)
        return actions, state

    def insert_answers(self, observation: Any, actions: NDArray[Any]) -> NDArray[Any]:
        """Actions with answers in the place of those for known graphs.

        Args:
            observation: One, or a batch.
            actions: (width,) or (B, width); where one unit is placed per step, () or (B,).
        """
        graphs = read_graph_id(observation)[..., 0]
        units = read_current_unit(observation) if "current_unit" in observation else None
        inserted = np.array(actions)
        for index in np.ndindex(graphs.shape):
            answer = self.answers.get(int(graphs[index]))
            if answer is not None:
                inserted[index] = answer if units is None else answer[units[index][0]]
        return inserted

    @property
    def predicts_placements(self) -> bool:
        """True if its predictions may be whole placements, not the device of one unit alone."""
        space = self.observation_space
        return not isinstance(space, spaces.Dict) or "current_unit" not in space.spaces

    def compare_greedy(self) -> None:
        """Evaluate the greedy placement, and drop answers that are not better.

        That costs one evaluation for each problem, none if the greedy placement is the answer.
        """
        for graph, base in self.find_bases().items():
            if graph not in self.answers:
                continue
            observation = base.observer.observe(base.reference_row(), 0)
            action = np.asarray(self.greedy.predict(observation, deterministic=True)[0])
            if not np.array_equal(action, self.answers[graph]):
                _, (speedup, feasible) = base.evaluate_batch(base.layout.parse(action)[None])
                if feasible[0] and speedup[0] >= self.evaluated.best[graph][0]:
                    del self.answers[graph]

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 10,
        tb_log_name: str = "",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """See ``OnPolicyAlgorithm.learn``; small graphs are trained on with one torch thread.

        The greedy placement is evaluated at the end, see ``predict``.

        Raises:
            UserError: ``total_timesteps`` is not an integer.
        """
        check_integer("total_timesteps", total_timesteps, 0)
        self.answers.clear()
        with limit_threads(self.observation_space):
            try:
                super().learn(
                    total_timesteps,
                    callback,
                    log_interval,
                    tb_log_name or type(self).__name__,
                    reset_num_timesteps,
                    progress_bar,
                )
            finally:  # also if a budget or the user has interrupted it
                if self.predicts_placements:
                    self.answers = {graph: row for graph, (_, row) in self.evaluated.best.items()}
            self.compare_greedy()
        return self


def make_logger(verbose: int = 0) -> Logger:
    """Make a logger that makes no folder, and prints if ``verbose`` is set."""
    return Logger(None, [HumanOutputFormat(sys.stdout)] if verbose else [])


@contextmanager
def limit_threads(observation_space: spaces.Space[Any]) -> Iterator[None]:
    """Use one torch thread inside the context if graphs are small; restore the number after it.

    ``REINFORCE.learn`` and ``Post.learn`` do this by themselves and log ``time/torch_threads``.
    SB3's algorithms do not::

        with limit_threads(env.observation_space):
            PPO(HSDAGPolicy, env).learn(10_000)

    Nothing is changed if the user has set ``OMP_NUM_THREADS`` or ``MKL_NUM_THREADS``, or if
    observations are not of a placement environment.

    Args:
        observation_space: Its ``node_mask`` has the (padded) number of units.
    """
    if not is_small(observation_space) or any(name in os.environ for name in SETTINGS_OF_THE_USER):
        yield
        return
    # Operations on small graphs are shorter than the synchronisation of threads.
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def is_small(observation_space: spaces.Space[Any]) -> bool:
    """Return whether observations are of a graph with fewer than ``SMALL_GRAPH`` units."""
    keys = observation_space.spaces if isinstance(observation_space, spaces.Dict) else {}
    if "node_mask" not in keys:
        return False
    (n_slots,) = keys["node_mask"].shape or (0,)
    return n_slots < SMALL_GRAPH
