"""Post: cross-entropy minimisation and proximal policy optimisation of a table of logits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.common.utils import obs_as_tensor
from torch import Tensor

from agents.common import REINFORCE, SB3_ADAM, LearnedAgent, Preset, is_tied
from agents.logits import LogitsOptions, LogitsPolicy
from placement_gym.base import IntArray, UserError, check_choice

__all__ = ["Post", "make"]

VARIANTS = ("joint", "cross_entropy", "ppo")
POPULATION_SIZE, ELITE_SHARE = 50, 0.1
"""Placements of a cross-entropy update, and the share whose frequencies are used. Hand-tuned."""
UNIFORM_WEIGHTS = (0.1, 0.01)
"""Weight of the uniform distribution at the beginning and at the end of learning. Hand-tuned."""


class Post(REINFORCE):
    """Cross-entropy minimisation and PPO together (Gao, Chen and Li 2018, Algorithm 1).

    After every ``n_steps`` placements of each environment, clipped PPO takes steps on them. After
    every ``POPULATION_SIZE``, the probabilities are set to the frequencies among the best feasible
    ones, or among the best of all if none is feasible, mixed with the uniform distribution. Neither
    update is made if all rewards are equal.

    Args:
        policy: ``"LogitsPolicy"``.
        env: The environment, or its id; environments of several graphs are refused.
        learning_rate: Learning rate of PPO.
        variant: ``"joint"``, or one of the two updates alone: ``"cross_entropy"``, ``"ppo"``.
        n_epochs: PPO steps on each rollout.
        clip_range: Clip range of PPO's likelihood ratio.
        n_steps: Placements of each environment per PPO update; times the number of environments, a
            divisor of ``POPULATION_SIZE``.
        settings: Other arguments of ``REINFORCE``, except those that are ``unused``.

    Raises:
        UserError: An argument is unused or out of range.
    """

    policy: LogitsPolicy
    unused = ("batch_size", "gamma", "returns", "baseline", "normalize_advantage", "min_spread",
              "ent_coef")  # fmt: skip
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"LogitsPolicy": LogitsPolicy}

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule = 1e-2,
        variant: str = "joint",
        n_epochs: int = 10,
        clip_range: float = 0.2,
        n_steps: int = 10,
        **settings: Any,
    ) -> None:
        if isinstance(policy, type) and not issubclass(policy, LogitsPolicy):
            name = policy.__name__
            raise UserError(
                f"Post learns a table of logits, 'LogitsPolicy', not {name}: use REINFORCE or PPO "
                f"for {name}"
            )
        check_choice("variant", variant, VARIANTS)
        if unused := sorted(set(settings) & set(self.unused)):
            raise UserError(f"Post has no {', '.join(unused)}")
        self.variant, self.clip_range = variant, clip_range
        self.forget_population()
        super().__init__(policy, env, learning_rate, n_steps, n_epochs, **settings)

    def _setup_model(self) -> None:
        super()._setup_model()
        rollout = self.n_steps * self.n_envs
        if POPULATION_SIZE % rollout:
            raise UserError(
                f"n_steps times the number of environments is {rollout}: give another n_steps, so "
                f"that it divides {POPULATION_SIZE}, the placements of a cross-entropy update"
            )

    def set_env(self, env: GymEnv, force_reset: bool = True) -> None:
        super().set_env(env, force_reset)
        self.forget_population()

    def forget_population(self) -> None:
        self.actions: list[IntArray] = []
        self.rewards: list[float] = []
        self.feasible: list[bool] = []

    def train(self) -> None:
        """Update by PPO on the rollout, and by cross-entropy when the population is complete."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        buffer = self.rollout_buffer
        if self.num_timesteps <= buffer.rewards.size:  # a new training has no population
            self.forget_population()
        self.actions += list(buffer.actions.swapaxes(0, 1).reshape(buffer.rewards.size, -1))
        self.rewards += buffer.rewards.T.ravel().tolist()
        self.feasible += np.stack(self.keeper.feasible).T.ravel().tolist()
        buffer.returns = buffer.rewards.copy()
        # Algorithm 1: PPO steps after every K samples, a cross-entropy step after every N
        if self.variant != "cross_entropy" and not is_tied(buffer.rewards):
            for _ in range(self.n_epochs):
                self.update_by_ppo()
        if len(self.rewards) >= POPULATION_SIZE:
            if self.variant != "ppo" and not is_tied(np.array(self.rewards)):
                self.update_by_cross_entropy()
            self.forget_population()
        self._n_updates += 1
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("time/torch_threads", torch.get_num_threads())
        self.logger.record("train/return", float(buffer.rewards.mean()))

    def update_by_ppo(self) -> None:
        """Take one gradient step of clipped PPO; advantages are standardised rewards."""
        for batch in self.rollout_buffer.get(batch_size=None):
            _, log_prob, _ = self.policy.evaluate_actions(batch.observations, batch.actions)
            returns = torch.as_tensor(batch.returns)
            # chosen here: neither the abstract nor Algorithm 1 says how rewards become advantages
            advantage = (returns - returns.mean()) / (returns.std(correction=0) + 1e-8)
            ratio = (log_prob - batch.old_log_prob).exp()
            clipped = ratio.clamp(1.0 - self.clip_range, 1.0 + self.clip_range)
            loss = -torch.minimum(advantage * ratio, advantage * clipped).mean()
            self.policy.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()

    @torch.no_grad()
    def update_by_cross_entropy(self) -> None:
        """Set the probabilities to the frequencies among the best placements of the population."""
        n_elite = max(round(ELITE_SHARE * len(self.rewards)), 1)
        scored = list(zip(self.rewards, self.actions, strict=True))
        fitting = [entry for entry, feasible in zip(scored, self.feasible, strict=True) if feasible]
        # chosen here: where nothing fits, the best are those that exceed limits by the fewest bytes
        ranked = sorted(fitting or scored, key=lambda entry: -entry[0])
        frequency = self.count_devices([actions for _, actions in ranked[:n_elite]])
        first, last = UNIFORM_WEIGHTS
        share = last + (first - last) * self._current_progress_remaining
        seen: Any = obs_as_tensor(self._last_obs, self.device)  # type: ignore[arg-type]
        mixed: Tensor = (1.0 - share) * frequency + share * self.policy.uniform_probabilities(seen)
        self.policy.logits.copy_(mixed.log())

    def count_devices(self, placements: list[IntArray]) -> Tensor:
        """(N, D) frequencies of the devices of each unit in (N,) placements."""
        chosen = torch.as_tensor(np.stack(placements), device=self.device).long()
        return torch.nn.functional.one_hot(chosen, self.policy.n_devices).float().mean(dim=0)


PAPER = Preset(
    LogitsOptions(),
    {
        "learning_rate": 1e-2,
        "n_steps": 1,
        "variant": "joint",
        "n_epochs": 10,
        "clip_range": 0.2,
        "max_grad_norm": 1.0,
    },
    {"num_envs": 10, "horizon": 1, "reward": "log_speedup"},
    SB3_ADAM,
)
"""``numbers.csv`` has the sources of the numbers."""
PRESETS = {"rl": replace(PAPER, policy=LogitsOptions(cost_weight=2.0)), "paper": PAPER}
make = LearnedAgent(LogitsPolicy, PRESETS, Post)
"""Makes Post; see ``agents.common.make.LearnedAgent``."""
