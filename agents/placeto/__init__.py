"""Placeto: places one unit after another, with a reward at each step (NeurIPS 2019)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from stable_baselines3.common.vec_env import DummyVecEnv

from agents.common import REINFORCE, SB3_ADAM, LearnedAgent, Preset, find_bases
from agents.placeto.episodes import DryRun, StreamUnitsEnv, UnitRollouts
from agents.placeto.policy import PlacetoOptions, PlacetoPolicy
from placement_gym.base import UserError, check_integer
from placement_gym.envs import PerUnitEnv, read_graph_id

__all__ = ["Placeto", "PlacetoOptions", "PlacetoPolicy", "make", "make_trainer"]

FIRST_RATE, LAST_RATE = 1e-3, 1e-4


def rate(remaining: float) -> float:
    """Learning rate, which falls linearly. Saved models name this function."""
    return LAST_RATE + (FIRST_RATE - LAST_RATE) * remaining


def entropy(remaining: float) -> float:
    """Weight of the entropy, which falls linearly from 1. Saved models name this function."""
    return remaining


class Placeto(REINFORCE):
    """REINFORCE on one unit per step, which can also predict the devices of all units at once.

    It then plays an episode without evaluations from the reference device, or from the best
    placement of the training if its episodes started there.
    """

    dry_run: DryRun | None = None

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """The current unit's device; where there is none, the devices of (N,) or (B, N) units.

        Raises:
            UserError: All units are to be placed, in another graph than that of the training.
        """
        if "current_unit" in observation:
            return super().predict(observation, state, episode_start, deterministic)
        self.remember_env()
        dry_run = self.dry_run
        if dry_run is None or (read_graph_id(observation) != dry_run.observer.graph_id).any():
            raise UserError(
                "Placeto predicts all units at once for the graph it was trained on; for another, "
                "play an episode in DevicePlacementPerUnit-v0 or DevicePlacementPerUnitSim-v0"
            )
        return dry_run.place(self.policy, observation, deterministic), state

    def remember_env(self) -> None:
        """Keep what predictions need of the environment, if there is one."""
        if self.env is None or not (bases := find_bases(self.env)):
            return
        if self.dry_run is None or self.dry_run.observer.graph_id != bases[0].observer.graph_id:
            self.dry_run = DryRun.from_env(bases[0])
        (first,) = self.env.get_attr("unwrapped", 0)
        if isinstance(first, PerUnitEnv) and first.start == "best" and first.best is not None:
            self.dry_run = replace(self.dry_run, start=first.best[1])

    def save(self, *args: Any, **kwargs: Any) -> None:
        """See SB3; the file also holds what predictions need of the environment."""
        self.remember_env()
        super().save(*args, **kwargs)


COMMON: dict[str, Any] = {
    "learning_rate": rate,
    "batch_size": 64,
    "baseline": "per_step",
    "max_grad_norm": 1.25,
}
PRESETS = {
    "rl": Preset(
        PlacetoOptions(devices=True),
        {**COMMON, "gamma": 0.9, "ent_coef": 0.01},
        optimizer=SB3_ADAM,
        scarce={"respect_memory": True},
    ),
    "paper": Preset(
        PlacetoOptions(), {**COMMON, "gamma": 1.0, "ent_coef": entropy}, optimizer=SB3_ADAM
    ),
}
"""``numbers.csv`` has the numbers with their sources; a rollout is an episode."""
make = LearnedAgent(PlacetoPolicy, PRESETS, Placeto, UnitRollouts)
"""Makes ``Placeto``, for environments that place all units at once or one unit per step."""


def make_trainer(
    seed: int = 0,
    problems: int = 8,
    episodes: int = 8,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make REINFORCE across problems of the split ``train``, which ``learn`` draws.

    A step places one unit; its baseline is the mean of the same step of the problem's other
    episodes. An update reads a part of each episode. Placements beyond a limit are repaired.
    ``ZeroShot`` takes the policy.

    Args:
        seed: Seed of weights and problems.
        problems: Problems of an update.
        episodes: Episodes of each problem, at least two.
        policy: Options of ``PlacetoPolicy``.
        envs: Arguments of ``StreamEnv``, such as ``make_problem``.
        settings: Arguments of ``REINFORCE`` that override the defaults.

    Raises:
        UserError: There are fewer than two episodes.
    """
    check_integer("episodes", episodes, 2)
    stream: dict[str, Any] = {"n_problems": None, **(envs or {})}
    members: list[Any] = [partial(StreamUnitsEnv, k, **stream) for k in range(episodes)]
    defaults = {"n_steps": 32, "batch_size": 512, "gamma": 0.9, "ent_coef": 0.01}
    return REINFORCE(
        PlacetoPolicy,
        DummyVecEnv(members * problems),
        policy_kwargs={"devices": True, **(policy or {})},
        seed=seed,
        **{"device": "cpu", "max_grad_norm": 1.25, **defaults, **settings},
    )
