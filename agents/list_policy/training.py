"""Training of list policies on generated problems, for the best of k samples."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import torch
from torch import nn

from placement_gym.base import FloatArray, check_integer, parse_count, round_significant
from placement_gym.envs import StreamEnv, StreamProblem
from placement_gym.solvers.list_policy import MOST_SPREAD, N_STATISTICS, N_WEIGHTS, ListPolicy

HIDDEN = 32
DIGITS = 5
"""Significant digits of the weights of a policy."""
WORST = 10.0
"""Cost of an infeasible schedule, in floors of its problem, and the maximum of others."""


def make_trainer(
    seed: int = 0, k: int = 8, envs: dict[str, Any] | None = None, **settings: Any
) -> BestOfK:
    """Make a trainer of list policies in ``DevicePlacementStream-v0``; ``learn`` counts episodes.

    Args:
        seed: Seed of weights and samples.
        k: Samples of which the best counts; 1 is the policy gradient for the mean.
        envs: Arguments of ``StreamEnv``.
        settings: Arguments of ``BestOfK`` that override the defaults.

    Raises:
        UserError: An argument is out of range.
    """
    return BestOfK(StreamEnv(**envs or {}), k, seed=seed, **settings)


def best_of_k_advantages(rewards: FloatArray, k: int) -> FloatArray:
    """(m, n) advantages of samples for the expected maximum reward of ``k`` of them.

    The gain of a sample is its reward above the best of ``k - 1`` others, or 0, on average over all
    sets of these. Its advantage is its gain minus the mean gain of all samples; for ``k = 1``, its
    reward minus the mean of the others (pass@k policy optimisation, Walder and Karkhanis 2025).

    Args:
        rewards: (m, n) rewards of ``n`` samples of each of ``m`` problems.
        k: From 1 to ``n``.
    """
    n = rewards.shape[1]
    if k == 1:
        return n / (n - 1.0) * (rewards - rewards.mean(axis=1, keepdims=True))
    # the probability that the best of k - 1 others is the j-th smallest of these
    sets = comb(n - 1, k - 1)
    weights = np.array([comb(j, k - 2) / sets for j in range(n - 1)])
    order = np.argsort(rewards, axis=1, kind="stable")
    ascending = np.take_along_axis(rewards, order, axis=1)
    # only smaller rewards count, whose ranks are the same among the others
    below = np.cumsum(weights) * ascending[:, 1:] - np.cumsum(weights * ascending[:, :-1], axis=1)
    gains = np.zeros_like(rewards)
    np.put_along_axis(gains, order[:, 1:], below, axis=1)
    centred: FloatArray = gains - gains.mean(axis=1, keepdims=True)
    return centred


class BestOfK:
    """The policy gradient for the best of ``k`` samples, on the problems of a stream.

    Args:
        env: The stream, whose problems are all made at once.
        k: See ``best_of_k_advantages``.
        samples: Samples of each problem in an update.
        problems: Problems of an update.
        learning_rate: Initial learning rate of Adam, which falls to a tenth during ``learn``.
        seed: Seed of weights and samples.

    Raises:
        UserError: ``k`` is not from 1 to ``samples``.
    """

    def __init__(
        self,
        env: StreamEnv,
        k: int,
        samples: int = 32,
        problems: int = 32,
        learning_rate: float = 5e-3,
        seed: int = 0,
    ) -> None:
        check_integer("k", k, 1, samples)
        check_integer("samples", samples, 2)
        check_integer("problems", problems, 1)
        self.k, self.samples, self.rate = k, samples, learning_rate
        self.rng = np.random.default_rng(seed)
        self.problems = [env.find_problem(number) for number in env.seeds]
        self.n_problems = min(problems, len(self.problems))
        statistics = np.stack([problem.statistics for problem in self.problems])
        self.shift = statistics.mean(axis=0).astype(np.float64)
        self.scale = statistics.std(axis=0).astype(np.float64) + 0.05
        self.seen = torch.as_tensor((statistics - self.shift) / self.scale, dtype=torch.float32)
        torch.manual_seed(seed)
        self.net = nn.Sequential(
            nn.Linear(N_STATISTICS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 2 * N_WEIGHTS)
        )
        for parameter in self.net[2].parameters():
            nn.init.zeros_(parameter)
        self.optimizer = torch.optim.Adam(self.net.parameters(), learning_rate)

    def learn(self, total_timesteps: int) -> BestOfK:
        """Take updates of ``samples`` x ``problems`` episodes, ``total_timesteps`` or more."""
        total_timesteps = parse_count("total_timesteps", total_timesteps, 0)
        n_updates = -(-total_timesteps // (self.samples * self.n_problems))
        for done in range(n_updates):
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate * max(0.1, 1.0 - done / n_updates)
            self.update()
        return self

    def update(self) -> None:
        """Take one step of the policy gradient on some problems."""
        chosen = self.rng.choice(len(self.problems), self.n_problems, replace=False)
        means, log_spreads = self.net(self.seen[chosen]).chunk(2, dim=1)
        policy = torch.distributions.Normal(
            means[:, None], log_spreads[:, None].clamp(-MOST_SPREAD, MOST_SPREAD).exp()
        )
        noise = self.rng.standard_normal((self.n_problems, self.samples, N_WEIGHTS))
        with torch.no_grad():
            actions = policy.mean + policy.stddev * torch.as_tensor(noise, dtype=torch.float32)
        pairs = zip(chosen, actions.double().numpy(), strict=True)
        rewards = np.stack([self.reward(self.problems[number], drawn) for number, drawn in pairs])
        advantages = best_of_k_advantages(rewards, self.k)
        scaled = torch.as_tensor(advantages / (advantages.std() + 1e-6), dtype=torch.float32)
        likelihood = policy.log_prob(actions).sum(dim=-1)  # type: ignore[no-untyped-call]
        loss = -(scaled * likelihood).mean()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()

    def reward(self, problem: StreamProblem, actions: FloatArray) -> FloatArray:
        """(samples,) log(floor / latency) of schedules."""
        costs = problem.scheduler.evaluate(actions, self.rng)[1]
        return np.log(problem.floor_ms / np.minimum(costs, WORST * problem.floor_ms))

    def export(self, about: str = "") -> ListPolicy:
        """The policy, with rounded numbers."""
        layers: list[Any] = [self.net[0], self.net[2]]
        weights = [
            np.vstack([layer.weight.detach().numpy().T, layer.bias.detach().numpy()])
            for layer in layers
        ]
        arrays = (self.shift, self.scale, *weights)
        rounded = [round_significant(array, DIGITS).tolist() for array in arrays]
        return ListPolicy(rounded[0], rounded[1], rounded[2], rounded[3], about)
