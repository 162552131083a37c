"""DOPPLER's three stages: imitation, its own schedule, and the environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from agents.common import is_tied, leave_one_out, normalize, warn_nothing_fits
from agents.doppler.episodes import Settings, Trace, compare_with_teacher, compute_likelihood, play
from agents.doppler.networks import DualPolicy
from agents.doppler.schedule import TaskGraph
from agents.search import INFEASIBLE_SPEEDUP, Search
from placement_gym.backends import PENALTY, compute_cost_ms
from placement_gym.base import Float32Array, FloatArray, IntArray, UserError, parse_count

MAX_NODES = 4_000
"""Limits memory: a batch of episodes keeps a number for every pair of nodes."""
MAX_NORM = 1.0
"""Norm of the gradient, at most; the published code does not clip."""


class Doppler(Search):
    """Places one node at a time: one policy chooses the node, another one its device.

    ``learn`` imitates a list scheduler, then follows the policy gradient on the episodes' own
    schedule, then on the environment; only the last stage evaluates placements. ``predict`` returns
    the placement of the most likely decisions, ``best`` is the fastest that was evaluated.

    Raises:
        UserError: The graph is too large.
    """

    predicts_best = False

    def __init__(self, env: gym.Env[Any, Any], seed: int, settings: Settings) -> None:
        super().__init__(env, seed)
        self.settings = settings
        self.graph = TaskGraph.from_problem(self.problem, self.base.cost_table())
        if len(self.graph) > MAX_NODES:
            raise UserError(
                f"DOPPLER places up to {MAX_NODES} nodes one by one, not {len(self.graph)}: use "
                "granularity='colocated' or 'fused', or the agent 'search'"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.policy = DualPolicy(settings.hidden, settings.rounds, settings.n_features)
        self.costs: list[float] = []
        self.prepared, self.warned = False, False
        # deviation: one optimizer for both policies, as Adam treats each weight by itself
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=settings.gradient_rate)

    def use_trained_policy(self) -> None:
        """Predict by the current policy, and leave stages 1 and 2 out of ``learn``."""
        self.prepared, self.assignment = True, self.place()

    def learn(self, total_timesteps: int) -> Doppler:
        """Imitate and simulate once, then evaluate ``total_timesteps`` more placements."""
        total_timesteps = parse_count("total_timesteps", total_timesteps, 0)
        if not self.prepared:
            self.imitate_teacher()
            self.learn_on_own_schedule()
            self.prepared = True
        self.costs, self.first, self.warned = [], self.evaluations, False
        try:
            super().learn(total_timesteps)
        finally:  # also if the budget or the user interrupts it
            self.assignment = self.place()
        return self

    def imitate_teacher(self) -> None:
        """Stage 1, on states that the learner itself visits."""
        settings = self.settings
        optimizer = torch.optim.Adam(self.policy.parameters(), lr=settings.learning_rate)
        for update in range(settings.imitation):
            trace = self.play(settings.rows, 0, update / settings.imitation)
            likelihood = compute_likelihood(self.policy, self.graph, trace)
            loss = compare_with_teacher(likelihood, trace, settings.published)
            self.update(optimizer, loss - settings.entropy[0] * likelihood.entropy())

    def learn_on_own_schedule(self) -> None:
        """Stage 2: the policy gradient on the lengths of the episodes' own schedules."""
        settings = self.settings
        for update in range(settings.simulation):
            trace = self.play(settings.rows, 1, update / settings.simulation)
            reached = self.graph.scale_ms * len(self.graph) / trace.length_ms
            self.update(self.optimizer, self.compute_loss(trace, reached, 1))

    def improve(self, end: int) -> None:
        """Stage 3: one update on the environment."""
        settings = self.settings
        rows = min(settings.rows, end - self.evaluations)
        done = (self.evaluations - self.first) / max(end - self.first, 1)
        trace = self.play(rows, 2, done, greedy=int(rows > 1))
        evaluated, reached = self.evaluate(trace.placement)
        fits = reached > INFEASIBLE_SPEEDUP
        if not fits.any() and not self.warned:
            self.warned = True
            warn_nothing_fits(rows, self.base, evaluated[0])
        reached[~fits] = self.grade(evaluated[~fits])
        # equal outcomes only leave the entropy
        if not is_tied(reached) or settings.entropy[2]:
            self.update(self.optimizer, self.compute_loss(trace, reached, 2))

    def grade(self, infeasible: IntArray) -> FloatArray:
        """(k,) speed-ups for (k, n_units) infeasible placements, as rewards have them."""
        if not len(infeasible):
            return np.zeros(0)
        shares = self.base.backend.excess_shares(infeasible)
        graded: FloatArray = 1.0 / compute_cost_ms(PENALTY, shares)
        return graded

    def play(self, rows: int, stage: int, done: float, greedy: int = 0) -> Trace:
        """Play episodes of a stage, of which the share ``done`` is over."""
        share = self.settings.uniform[stage] * (1.0 - done)
        return play(self.policy, self.graph, self.settings, self.rng, rows, greedy, uniform=share)

    def compute_loss(self, trace: Trace, reached: FloatArray, stage: int) -> Tensor:
        """Loss of the policy gradient, and of the entropy."""
        settings = self.settings
        # the return comes with the last step: discounting weakens early decisions
        likelihood = compute_likelihood(self.policy, self.graph, trace)
        advantage = torch.from_numpy(self.compute_advantage(reached))[:, None]
        steps = torch.arange(len(self.graph) - 1, -1, -1)
        loss = -(advantage * settings.discount**steps * likelihood.of(trace)).mean()
        return loss - settings.entropy[stage] * likelihood.entropy()

    def compute_advantage(self, reached: FloatArray) -> Float32Array:
        """(B,) float32 advantages of (B,) speed-ups: of their logarithms, or of published costs.

        Deviation: the published baseline, the mean of all costs so far, lags behind the policy.
        """
        if is_tied(reached):
            return np.zeros(len(reached), np.float32)
        if self.settings.published:
            costs = 1.0 / reached
            self.costs += costs.tolist()
            return (np.mean(self.costs) - costs).astype(np.float32)
        value, one_graph = np.log(reached), np.zeros(len(reached), np.int64)
        advantage = value - leave_one_out(value, one_graph, np.zeros_like(value))
        return normalize(advantage, one_graph, 0.0).astype(np.float32)

    def update(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if not self.settings.published:
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), MAX_NORM)
        optimizer.step()

    def place(self) -> IntArray:
        """(n_units,) the placement of the most likely decisions."""
        return play(self.policy, self.graph, self.settings, self.rng, 1, greedy=1).placement[0]
