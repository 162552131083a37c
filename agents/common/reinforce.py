"""REINFORCE as an SB3 algorithm."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import (
    ActorCriticPolicy,
    BasePolicy,
    MultiInputActorCriticPolicy,
)
from stable_baselines3.common.type_aliases import (
    DictRolloutBufferSamples,
    GymEnv,
    RolloutBufferSamples,
    Schedule,
)

from agents.common.baselines import BASELINES, MovingAverages, is_tied, leave_one_out
from agents.common.graph_policy import GraphPolicy
from agents.common.learner import OnPolicyLearner
from agents.common.policy import UnitPolicy
from agents.common.redraw import WINDOW, Redraws
from placement_gym.base.arguments import check_integer
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.errors import UserError, unknown_name
from placement_gym.envs.scaling import read_graph_id

Losses = tuple[torch.Tensor, torch.Tensor]
RETURNS = ("to_go", "immediate")
LOSSES = ("policy_loss", "entropy_loss")
STEP_BITS = 32
"""Bits of the episode's step in the key of a baseline, below those of the graph: ``graph_id`` has
at most 24, so that a key fits int64."""


class REINFORCE(OnPolicyLearner):
    """Policy gradient with a choice of returns and baselines (Williams 1992).

    Rewards are ignored in an update if all of a rollout are equal.

    Args:
        policy: A policy class, or an alias of SB3.
        env: The environment, or its id.
        learning_rate: A number or a function of the remaining progress.
        n_steps: Steps of each environment per rollout.
        n_epochs: Gradient steps on each rollout.
        batch_size: Rows whose gradient is computed at once; gradients are accumulated, so that
            only memory depends on it. None takes the whole rollout.
        gamma: Discount factor.
        returns: ``"to_go"``: discounted rewards from a step on, up to the end of the episode or
            rollout. ``"immediate"``: gamma^i r_i, each placement's own reward (HSDAG, 2.5).
        baseline: ``"none"``; ``"moving_average"``; ``"per_step"``, a moving average for each graph
            and step of the episode (Placeto); ``"leave_one_out"``, the mean of the other returns
            of the rollout at the same graph and step, or a moving average if there are none.
        normalize_advantage: Whether advantages of each graph are scaled to a mean square of one.
        min_spread: Smallest root mean square by which they are divided, so that returns that hardly
            differ are not scaled up with their noise.
        ent_coef: Weight of the entropy; a number or a function of the remaining progress.
        max_grad_norm: Maximum norm of the gradient.
        redraw: Placements after which only a window of the best one so far is drawn again, see
            ``Redraws``; None always draws all units. The policy must draw groups with each
            placement, as ``GraphGroupsPolicy`` does.
        kwargs: As for SB3's algorithms: ``policy_kwargs``, ``seed``, ``device``, ``verbose``,
            ``tensorboard_log`` and others.

    Raises:
        ValueError: Unknown returns or baseline, or redrawing by a policy that cannot.
    """

    fixed_settings: ClassVar = ("vf_coef",)
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
        redraw: int | None = None,
        _init_setup_model: bool = True,
        **kwargs: Any,
    ) -> None:
        if returns not in RETURNS:
            raise unknown_name("returns", returns, RETURNS)
        if baseline not in BASELINES:
            raise unknown_name("baseline", baseline, BASELINES)
        if redraw is not None:
            check_integer("redraw", redraw, 0)
        super().__init__(
            policy,
            env,
            learning_rate=learning_rate,
            n_steps=n_steps,
            gamma=gamma,
            ent_coef=ent_coef,
            vf_coef=0.0,
            max_grad_norm=max_grad_norm,
            _init_setup_model=False,
            **kwargs,
        )
        self.n_epochs, self.batch_size = n_epochs, batch_size
        self.returns, self.baseline = returns, baseline
        self.normalize_advantage, self.min_spread = normalize_advantage, min_spread
        self.redraw, self.redraws = redraw, Redraws(self.evaluated.best)
        self.averages = MovingAverages()
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self) -> None:
        if isinstance(self.policy_class, type) and issubclass(self.policy_class, GraphPolicy):
            self.policy_kwargs = {"critic": False, **self.policy_kwargs}
        super()._setup_model()
        if self.redraw is not None:
            self.check_redraw()

    def check_redraw(self) -> None:
        """Raise unless the policy can redraw windows in this environment.

        Raises:
            UserError: The policy draws no groups, or episodes have several placements.
        """
        if not getattr(self.policy, "draws_groups", False):
            raise UserError(
                "redraw needs a policy that draws groups with each placement, as "
                "GraphGroupsPolicy does; or pass redraw=None"
            )
        assert isinstance(self.observation_space, spaces.Dict)
        if self.observation_space["step"].count > 1:  # type: ignore[attr-defined]
            raise UserError("redraw needs episodes of one placement: pass horizon=1")

    def collect_rollouts(self, *args: Any, **kwargs: Any) -> bool:
        """See SB3; also decides whether the policy draws windows in this rollout."""
        if isinstance(self.policy, UnitPolicy):
            due = self.redraw is not None and self.num_timesteps >= self.redraw
            # Proposals come first: they are evaluated as they are, not near a best placement.
            self.redraws = Redraws(self.evaluated.best)
            self.policy.redraws = self.redraws if due and not len(self.policy.proposals) else None
        return super().collect_rollouts(*args, **kwargs)

    def forget_returns(self) -> None:
        """See ``OnPolicyLearner``."""
        super().forget_returns()
        self.averages.known.clear()

    def train(self) -> None:
        """Update the policy on the rollout."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        # HSDAG (2.5) or Williams (1992): a return for each action, and its advantage over what the
        # same graph and step gave otherwise.
        keys, positions = self.baseline_keys()
        returns = self.compute_returns(positions)
        advantages = self.compute_advantages(returns, keys)
        # Without `tied`, normalising would scale rounding errors of equal rewards up to advantages.
        buffer = self.rollout_buffer
        tied = is_tied(buffer.rewards)
        advantages *= not tied
        buffer.returns = returns.astype(np.float32)
        buffer.advantages = advantages.astype(np.float32)
        if getattr(self.policy, "redraws", None) is not None:
            assert isinstance(buffer.observations, dict)
            buffer.observations[WINDOW] = np.stack(self.redraws.windows)
        # the gradient of log pi(a) * advantage, and of the entropy; equal rewards say nothing, and
        # without an entropy Adam would move by its momentum alone
        if advantages.any() or self.entropy_weight():
            for _ in range(self.n_epochs):
                self.update_policy()
            self._n_updates += self.n_epochs
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("time/torch_threads", torch.get_num_threads())
        self.logger.record("train/return", float(returns.mean()))
        self.logger.record("train/advantage_std", float(advantages.std()))

    def baseline_keys(self) -> tuple[IntArray, IntArray]:
        """(n_steps, n_envs) key of each action's graph and step, and position in its episode."""
        buffer = self.rollout_buffer
        observations: Any = buffer.observations
        if isinstance(observations, dict) and "step" in observations:
            shares: Any = self.observation_space
            step = shares["step"].read(observations["step"])[..., 0]
            return (read_graph_id(observations)[..., 0] << STEP_BITS) + step, step
        rows = np.arange(buffer.buffer_size)[:, None]
        begin = np.maximum.accumulate(np.where(buffer.episode_starts, rows, 0), axis=0)
        return rows - begin, rows - begin  # without an id, all observations are of one graph

    def compute_returns(self, positions: IntArray) -> FloatArray:
        """(n_steps, n_envs) return of each action."""
        buffer = self.rollout_buffer
        if self.returns == "immediate":
            return (buffer.rewards * self.gamma**positions).astype(np.float64)
        return buffer.returns.astype(np.float64)

    def compute_advantages(self, returns: FloatArray, keys: IntArray) -> FloatArray:
        """(n_steps, n_envs) returns above the baseline, scaled if ``normalize_advantage``.

        Each graph has a scale of its own, so that all of a rollout count alike.
        """
        advantages = returns - self.compute_baseline(returns, keys)
        graphs = keys >> STEP_BITS
        for graph in np.unique(graphs) if self.normalize_advantage else ():
            in_graph = graphs == graph
            spread = np.sqrt((advantages[in_graph] ** 2).mean())
            advantages[in_graph] /= max(spread, self.min_spread) + 1e-8
        return advantages

    def compute_baseline(self, returns: FloatArray, keys: IntArray) -> FloatArray:
        """(n_steps, n_envs) baseline of each return."""
        if self.baseline == "moving_average":
            return self.averages(returns, np.zeros_like(keys))
        if self.baseline == "per_step":
            return self.averages(returns, keys)
        if self.baseline == "leave_one_out":
            return leave_one_out(returns, keys, self.averages(returns, keys))
        return np.zeros_like(returns)

    def update_policy(self) -> None:
        """Take one gradient step on the whole rollout."""
        losses = np.zeros(len(LOSSES))
        self.policy.optimizer.zero_grad()
        for batch in self.rollout_buffer.get(self.batch_size):
            # Mini-batches accumulate: one step on the mean of the whole rollout, however it is
            # split.
            share = len(batch.advantages) / self.rollout_buffer.returns.size
            policy_loss, entropy_loss = self.compute_losses(batch)
            loss = policy_loss + self.entropy_weight() * entropy_loss
            (share * loss).backward()  # type: ignore[no-untyped-call]
            losses += [share * loss.item() for loss in (policy_loss, entropy_loss)]
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
        self.policy.optimizer.step()
        for name, value in zip(LOSSES, losses.tolist(), strict=True):
            self.logger.record(f"train/{name}", value)

    def compute_losses(self, batch: RolloutBufferSamples | DictRolloutBufferSamples) -> Losses:
        """Policy and entropy loss of a batch of the rollout."""
        actions = batch.actions
        if isinstance(self.action_space, spaces.Discrete):
            actions = actions.long().flatten()
        _, log_prob, entropy = self.policy.evaluate_actions(batch.observations, actions)
        policy_loss = -(batch.advantages * log_prob).mean()
        return policy_loss, -(-log_prob if entropy is None else entropy).mean()

    def entropy_weight(self) -> float:
        """The weight of the entropy at the current progress."""
        weight: Any = self.ent_coef
        return float(weight(self._current_progress_remaining) if callable(weight) else weight)
