"""Placeto as an agent of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
from numpy.typing import NDArray

from agents.common import training
from agents.common.factory import SB3_ADAM, Method, Preset, make_learner
from agents.common.free_memory import lacks_repair
from agents.common.reinforce import REINFORCE
from agents.options import hands_on_to
from agents.placeto.episodes import Rehearsal, make_training_episodes
from agents.placeto.policy import PlacetoOptions, PlacetoPolicy
from placement_gym.base.errors import UserError
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import Policy
from placement_gym.envs.per_unit import PerUnitEnv
from placement_gym.envs.placement_env import placement_env
from placement_gym.envs.scaling import read_graph_id

FIRST_RATE, LAST_RATE = 1e-3, 1e-4


@dataclass(frozen=True, eq=False)
class RehearsedPolicy:
    """A policy of one unit per step, which can also predict the devices of all units at once.

    If an observation has no current unit, the prediction is the final placement of an episode that
    evaluates no placement.
    """

    policy: Policy
    rehearsal: Rehearsal | None

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], Any]:
        """The current unit's device, or the devices of (N,) or (B, N) units.

        Raises:
            UserError: All units are asked for in another graph than that of the training.
        """
        if "current_unit" in observation:
            return self.policy.predict(observation, state, episode_start, deterministic)
        rehearsal = self.rehearsal
        if rehearsal is None or (read_graph_id(observation) != rehearsal.observer.graph_id).any():
            raise UserError(
                "Placeto predicts all units at once for the graph it was trained on; for another, "
                "play an episode in DevicePlacementPerUnit-v0 or DevicePlacementPerUnitSim-v0"
            )
        return rehearsal.place(self.policy, observation, deterministic), state


class Placeto(REINFORCE):
    """REINFORCE on one unit per step, which can also predict the devices of all units at once.

    These are of an episode that starts with all units on the reference device, or from the best
    placement of the training if its episodes did.
    """

    rehearsal: Rehearsal | None = None

    predicts_placements = True

    @property
    def greedy(self) -> Policy:
        """See ``OnPolicyLearner``."""
        self.remember_env()
        return RehearsedPolicy(self.policy, self.rehearsal)

    def remember_env(self) -> None:
        """Keep the parts of the environment that predictions need, if there is one.

        These include its best placement so far, if its episodes start from there.
        """
        base = self.find_base()
        if base is None or self.env is None:
            return
        before, best = self.rehearsal, self.env.get_attr("best")[0]
        if before is None or before.observer.graph_id != base.observer.graph_id:
            self.rehearsal = before = Rehearsal.of(base)
        if self.env.get_attr("start")[0] == "best" and best is not None:
            self.rehearsal = replace(before, start=best[1])

    def save(self, *args: Any, **kwargs: Any) -> None:
        """See SB3; the file also holds what predictions need of the environment."""
        self.remember_env()
        super().save(*args, **kwargs)

    @classmethod
    def fit_env(cls, env: Any, attributes: dict[str, Any]) -> Any:
        """See ``OnPolicyLearner``; one unit is placed per step."""
        if isinstance(env, str):
            env = gym.make(env)
        return place_units(env)


def rate(remaining: float) -> float:
    """The learning rate; it falls linearly. Saved models name this function."""
    return LAST_RATE + (FIRST_RATE - LAST_RATE) * remaining


def entropy(remaining: float) -> float:
    """The weight of the entropy; it falls linearly from 1. Saved models name this function."""
    return remaining


COMMON: dict[str, Any] = {
    "learning_rate": rate,
    "batch_size": 64,
    "baseline": "per_step",
    "max_grad_norm": 1.25,
}
PRESETS = {
    "rl": Preset(
        PlacetoOptions(devices=True), {**COMMON, "gamma": 0.9, "ent_coef": 0.01}, optimizer=SB3_ADAM
    ),
    "paper": Preset(
        PlacetoOptions(), {**COMMON, "gamma": 1.0, "ent_coef": entropy}, optimizer=SB3_ADAM
    ),
}
"""A rollout is an episode; the README has the numbers with their sources."""
TRAINING = training.Training(
    PlacetoPolicy,
    {"devices": True},
    {
        "learning_rate": 1e-3,
        "n_steps": 32,
        "batch_size": 512,
        "gamma": 0.9,
        "ent_coef": 0.01,
        "max_grad_norm": 1.25,
    },
    rollouts=make_training_episodes,
)
"""Across problems an update sees a part of an episode."""


@hands_on_to(make_learner, Placeto)
def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "rl",
    policy: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    **settings: Any,
) -> Placeto:
    """Make Placeto for an environment that places all units at once or one unit per step.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        preset: ``"rl"``, in which times and limits of devices are seen, and kept to where ``env``
            does not repair placements; or ``"paper"``.
        policy: Attributes of ``PlacetoOptions`` that override the preset.
        weights: What the policy begins with, a file of ``agents.save_weights``; None is random.
        settings: Arguments of ``REINFORCE`` that override the preset.

    Raises:
        UserError: Unknown preset or option.
    """
    base = placement_env(env)
    _ = base.singles  # measured once for it and its copy
    keeps = preset == "rl" and lacks_repair(base)
    model: Placeto = make_learner(
        METHOD,
        env,
        seed,
        preset,
        {**({"respect_memory": True} if keeps else {}), **(policy or {})},
        weights=weights,
        **{"n_steps": base.problem.n_units, **settings},
    )
    return model


def make_trainer(seed: int = 0, **choices: Any) -> REINFORCE:
    """Make REINFORCE across problems; see ``agents.common.training.make_trainer``.

    A step of ``learn`` places one unit, and is compared with the same step of the other episodes
    of its problem. The network also goes to ``ZeroShot``.
    """
    model: REINFORCE = training.make_trainer(TRAINING, seed, **choices)
    return model


def without_graph(env: DevicePlacementEnv, **sizes: Any) -> DevicePlacementEnv:
    """Copy an environment, its observations without the graph and padded to these sizes."""
    base = copy(env)
    base.observer = replace(base.observer, graph=False, **sizes)
    base.observation_space = base.observer.space()
    return base


def place_units(env: gym.Env[Any, Any]) -> PerUnitEnv:
    """Make an environment of one unit per step, without the graph.

    Where the given one places one unit per step, episodes start as it says.
    """
    base, outer = without_graph(placement_env(env)), env.unwrapped
    return PerUnitEnv(base, start=outer.start if isinstance(outer, PerUnitEnv) else "first")


METHOD = Method(PlacetoPolicy, PRESETS, Placeto, place_units)
