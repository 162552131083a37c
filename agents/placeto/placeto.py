"""Placeto's learner, which also answers for all units at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agents.common import REINFORCE, find_bases
from agents.placeto.episodes import DryRun
from placement_gym.base import UserError
from placement_gym.envs import read_graph_id


class Placeto(REINFORCE):
    """REINFORCE on one unit per step, which can also predict the devices of all units at once.

    These are the result of an episode that evaluates no placement. It starts with all units on the
    reference device, or with the best placement of the training if its episodes did.
    """

    dry_run: DryRun | None = None

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """The current unit's device; without one, the devices of (N,) or (B, N) units.

        Raises:
            UserError: All units are asked for in another graph than that of the training.
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
        """Keep the parts of the environment that predictions need, if there is one.

        These include its best placement so far, if its episodes start from there.
        """
        base = None if self.env is None else next(iter(find_bases(self.env)), None)
        if self.env is None or base is None:
            return
        dry_run = self.dry_run
        if dry_run is None or dry_run.observer.graph_id != base.observer.graph_id:
            self.dry_run = dry_run = DryRun.from_env(base)
        if not self.env.env_method("has_wrapper_attr", "start", indices=[0])[0]:
            return  # problems change from episode to episode
        best = self.env.get_attr("best")[0]
        if self.env.get_attr("start")[0] == "best" and best is not None:
            self.dry_run = replace(dry_run, start=best[1])

    def save(self, *args: Any, **kwargs: Any) -> None:
        """See SB3; the file also holds what predictions need of the environment."""
        self.remember_env()
        super().save(*args, **kwargs)
