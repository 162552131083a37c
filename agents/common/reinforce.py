"""REINFORCE as an algorithm of Stable-Baselines3; ``train`` reads from top to bottom."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.logger import HumanOutputFormat, Logger
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import (
    ActorCriticPolicy,
    BasePolicy,
    MultiInputActorCriticPolicy,
)
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.type_aliases import (
    DictRolloutBufferSamples,
    GymEnv,
    MaybeCallback,
    RolloutBufferSamples,
    Schedule,
)

from agents.best import BestPlacements
from agents.common import baselines
from agents.common.callbacks import BestPlacementCallback
from agents.common.policy import GraphPolicy
from agents.common.vec_env import Rollouts, read_graphs, start_rollouts
from placement_gym.base import FloatArray, IntArray, UserError, check_choice, parse_count
from placement_gym.envs import read_sizes

Losses = tuple[torch.Tensor, torch.Tensor]
RETURNS = ("to_go", "immediate")
ACTION_SPACES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
SMALL_GRAPH = 5_000
"""Units below which one torch thread was measured to be faster than several."""
SETTINGS_OF_THE_USER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


class REINFORCE(OnPolicyAlgorithm):
    """Policy gradient with a choice of returns and baselines (Williams 1992).

    ``model.best`` is the fastest placement that was evaluated; ``predict`` returns the policy's.

    Args:
        policy: A policy class, or an alias of SB3.
        env: The environment, or its id.
        learning_rate: A number or a function of the remaining progress.
        n_steps: Steps of each environment per rollout.
        n_epochs: Gradient steps on each rollout.
        batch_size: Rows whose gradient is computed at once; gradients are accumulated, so
            only memory depends on it. None takes the whole rollout.
        gamma: Discount factor.
        returns: ``"to_go"``: discounted rewards from a step to the end of the episode or rollout.
            ``"immediate"``: gamma^i r_i, each placement's own reward (HSDAG, 2.5).
        baseline: ``"none"``; ``"moving_average"``; ``"per_step"``, a moving average for each graph
            and step of the episode (Placeto); ``"leave_one_out"``, the mean of the other returns
            of the rollout at the same graph and step, or a moving average if there are none.
        normalize_advantage: Whether advantages of each graph are scaled to a mean square of one.
        min_spread: Smallest root mean square by which they are divided, so the noise of nearly
            equal returns is not scaled up.
        ent_coef: Weight of the entropy; a number or a function of the remaining progress.
        max_grad_norm: Maximum norm of the gradient.
        stats_window_size: Number of episodes in logged means.
        tensorboard_log: Folder of TensorBoard's logs; None writes none.
        policy_kwargs: Arguments of the policy.
        verbose: 1 prints the log.
        seed: Seed of all random numbers.
        device: Device of PyTorch.

    Raises:
        ValueError: Unknown returns or baseline.
    """

    unused: ClassVar[tuple[str, ...]] = ()
    """Arguments that a subclass refuses."""
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": ActorCriticPolicy,
        "MultiInputPolicy": MultiInputActorCriticPolicy,
    }

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule = 1e-3,
        n_steps: int = 20,
        n_epochs: int = 1,
        batch_size: int | None = None,
        gamma: float = 1.0,
        returns: str = "to_go",
        baseline: str = "leave_one_out",
        normalize_advantage: bool = True,
        min_spread: float = 0.0,
        ent_coef: float | Schedule = 0.0,
        max_grad_norm: float = 1.0,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        check_choice("returns", returns, RETURNS)
        check_choice("baseline", baseline, baselines.BASELINES)
        n_steps = parse_count("n_steps", n_steps, 1)
        if isinstance(policy, type) and issubclass(policy, GraphPolicy):
            policy_kwargs = {"critic": False, **(policy_kwargs or {})}
        super().__init__(
            policy,
            env,  # type: ignore[arg-type]
            learning_rate,
            n_steps,
            gamma,
            gae_lambda=1.0,
            ent_coef=ent_coef,  # type: ignore[arg-type]
            vf_coef=0.0,
            max_grad_norm=max_grad_norm,
            use_sde=False,
            sde_sample_freq=-1,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            supported_action_spaces=ACTION_SPACES,
            _init_setup_model=False,
        )
        self.n_epochs, self.batch_size = n_epochs, batch_size
        self.returns, self.baseline = returns, baseline
        self.normalize_advantage, self.min_spread = normalize_advantage, min_spread
        self.averages = baselines.MovingAverages()
        self.best = BestPlacements()
        self.keeper = BestPlacementCallback()
        # `agents.make` sets the first two; `agents.load` reads all three, so that a loaded model
        # steps another environment in the same way
        self.rollouts: Rollouts | None = None
        self.steps_together = n_steps
        self.algorithm = f"{type(self).__module__}:{type(self).__qualname__}"
        if _init_setup_model:
            self._setup_model()

    def train(self) -> None:
        """Update the policy on the rollout."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        remaining, weight = self._current_progress_remaining, self.ent_coef
        ent_coef = float(weight(remaining) if callable(weight) else weight)
        buffer = self.rollout_buffer

        # HSDAG (2.5) or Williams (1992): a return for each action
        keys, positions = baselines.find_keys(buffer, self.observation_space)
        returns = buffer.returns.astype(np.float64)
        if self.returns == "immediate":
            returns = (buffer.rewards * self.gamma**positions).astype(np.float64)

        # its advantage over a baseline, such as the returns of other actions at its graph and step
        advantages = returns - self.compute_baseline(returns, keys)
        if self.normalize_advantage:
            advantages = baselines.normalize(advantages, keys, self.min_spread)
        if baselines.is_tied(buffer.rewards):  # advantages are rounding errors, scaled up
            advantages *= 0.0
        buffer.returns = returns.astype(np.float32)
        buffer.advantages = advantages.astype(np.float32)

        # the gradient of log pi(a) * advantage and of the entropy; without both, Adam would move
        # the weights by momentum alone
        epochs = self.n_epochs if advantages.any() or ent_coef else 0
        policy_losses, entropy_losses = [], []
        for _ in range(epochs):
            self.policy.optimizer.zero_grad()
            # mini-batches accumulate: one step on the mean of the whole rollout
            for batch in buffer.get(self.batch_size):
                policy_loss, entropy_loss = self.compute_losses(batch)
                share = len(batch.advantages) / returns.size
                loss = policy_loss + ent_coef * entropy_loss
                (share * loss).backward()  # type: ignore[no-untyped-call]
                policy_losses.append(share * policy_loss.item())
                entropy_losses.append(share * entropy_loss.item())
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
        self._n_updates += epochs

        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("time/torch_threads", torch.get_num_threads())
        self.logger.record("train/return", float(returns.mean()))
        self.logger.record("train/advantage_std", float(advantages.std()))
        if epochs:
            self.logger.record("train/policy_loss", sum(policy_losses) / epochs)
            self.logger.record("train/entropy_loss", sum(entropy_losses) / epochs)

    def compute_losses(self, batch: RolloutBufferSamples | DictRolloutBufferSamples) -> Losses:
        """Policy and entropy loss of a batch of the rollout."""
        actions = batch.actions
        if isinstance(self.action_space, spaces.Discrete):
            actions = actions.long().flatten()
        _, log_prob, entropy = self.policy.evaluate_actions(batch.observations, actions)
        policy_loss = -(batch.advantages * log_prob).mean()
        return policy_loss, -(-log_prob if entropy is None else entropy).mean()

    def compute_baseline(self, returns: FloatArray, keys: IntArray) -> FloatArray:
        """(n_steps, n_envs) baseline of each return."""
        if self.baseline == "none":
            return np.zeros_like(returns)
        moving = self.baseline == "moving_average"
        averages = self.averages(returns, np.zeros_like(keys) if moving else keys)
        if self.baseline == "leave_one_out":
            return baselines.leave_one_out(returns, keys, averages)
        return averages

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 10,
        tb_log_name: str = "",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """See SB3; on small graphs with one torch thread, which is faster there."""
        total_timesteps = parse_count("total_timesteps", total_timesteps, 0)
        # SB3 keeps no callback between calls: the new one continues from `best`
        self.keeper, others = BestPlacementCallback(), callback
        if not isinstance(others, list):
            others = [others if isinstance(others, BaseCallback) else ConvertCallback(others)]
        silence(self)
        with limit_threads(self.observation_space):
            return super().learn(
                total_timesteps,
                [self.keeper, *others],
                log_interval,
                tb_log_name or type(self).__name__,
                reset_num_timesteps,
                progress_bar,
            )

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "keeper"]  # the callback refers to the model

    def set_env(self, env: GymEnv, force_reset: bool = True) -> None:
        """See SB3; the number of environments may change, for instance to one that is measured.

        Weights and optimizer stay; averages of returns and the best placement are dropped. A model
        of ``agents.make`` takes environments as ``make`` does.

        Raises:
            UserError: The environment has other sizes than that of the training.
        """
        venv, self.n_steps = start_rollouts(env, vars(self))
        venv = self._wrap_env(venv, self.verbose)
        # SB3 refuses another number, as its rollout buffer has a column for each environment
        self.n_envs = venv.num_envs
        make_buffer: Any = self.rollout_buffer_class
        sizes = self.n_steps, self.observation_space, self.action_space, self.device
        self.rollout_buffer = make_buffer(*sizes, gamma=self.gamma, n_envs=self.n_envs)
        super().set_env(venv, force_reset)
        self.add_env_graphs()
        self.averages, self.best = baselines.MovingAverages(), BestPlacements()

    @classmethod
    def load(cls, path: Any, env: GymEnv | None = None, **kwargs: Any) -> Self:  # type: ignore[override]
        """See SB3, and ``agents.load``."""
        saved: Any = load_from_zip_file(path, custom_objects=kwargs.get("custom_objects"))[0]
        _, _, name = saved.get("algorithm", "").partition(":")
        if name and name != cls.__qualname__:
            raise UserError(
                f"{path} was saved by {name}: load it by agents.load(path, env), or {name}.load"
            )
        if env is not None:
            env, n_steps = start_rollouts(env, saved)
            kwargs = {"n_steps": n_steps, **kwargs}
        try:
            model = super().load(path, env, **kwargs)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
        model.add_env_graphs()
        return model

    def add_env_graphs(self) -> None:
        """Add the environment's graphs to the policy's table, if it has one."""
        policy = self.policy
        if self.env is None or not isinstance(policy, GraphPolicy) or policy.table is None:
            return
        graphs = read_graphs(self.env, policy.reads_devices(asdict(policy.options))) or {}
        policy.set_graphs({**graphs, **policy.table})


@contextmanager
def limit_threads(observation_space: spaces.Space[Any]) -> Iterator[None]:
    """Use one torch thread in the context if graphs are small.

    ``OMP_NUM_THREADS`` and ``MKL_NUM_THREADS`` take precedence, and spaces of other environments
    change nothing. Use it with SB3's algorithms::

        with limit_threads(env.observation_space):
            PPO(HSDAGPolicy, env).learn(10_000)
    """
    # operations on small graphs take less time than the synchronisation of threads
    n_units = read_sizes(observation_space).get("max_nodes", SMALL_GRAPH)
    n_threads, is_set = torch.get_num_threads(), any(map(os.environ.get, SETTINGS_OF_THE_USER))
    if n_units < SMALL_GRAPH and not is_set:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def silence(model: OnPolicyAlgorithm) -> None:
    """Keep a model without ``tensorboard_log`` from making SB3's empty folder in /tmp."""
    if model.tensorboard_log is None and not model._custom_logger:
        formats: list[Any] = [HumanOutputFormat(sys.stdout)] if model.verbose else []
        model.set_logger(Logger(None, formats))
