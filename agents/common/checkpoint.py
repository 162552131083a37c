"""Training that can be stopped and goes on as if it had not been."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import set_random_seed

Algorithm = TypeVar("Algorithm", bound=BaseAlgorithm)


class Checkpoint(BaseCallback):
    """Saves the model between roll-outs so that a resumed run equals an uninterrupted one.

    What follows the last checkpoint is done again. Every checkpoint, and the beginning of
    training, starts all random numbers and episodes anew, from the model's seed and the steps
    done. So nothing of them has to be saved.

        model = resumed(REINFORCE("MultiInputPolicy", env, seed=0), "run.zip")
        left = total - model.num_timesteps
        model.learn(left, Checkpoint("run.zip", every=100), reset_num_timesteps=False)

    Args:
        path: A ``.zip`` file that is replaced each time.
        every: Steps between two checkpoints, at least.
        verbose: As for SB3's callbacks.
    """

    def __init__(self, path: str | Path, every: int, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.path, self.every = zipped(path), every
        self.saved_at = 0

    def _on_training_start(self) -> None:
        self.saved_at = self.num_timesteps
        restart(self.model)

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.due:
            self.save()
            restart(self.model)

    def _on_training_end(self) -> None:
        if self.due and self.model.rollout_buffer.full:  # type: ignore[attr-defined]
            self.save()

    @property
    def due(self) -> bool:
        """Whether the last checkpoint is old enough."""
        return self.model.num_timesteps - self.saved_at >= self.every

    def save(self) -> None:
        """Replace the file; being killed meanwhile leaves the old one."""
        self.saved_at = self.model.num_timesteps
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(f"new-{self.path.name}")
        self.model.save(new)
        new.replace(self.path)


def zipped(path: str | Path) -> Path:
    """The path with the ending that SB3 gives a saved model."""
    given = Path(path)
    return given if given.suffix == ".zip" else given.with_name(f"{given.name}.zip")


def restart(model: BaseAlgorithm) -> None:
    """New random numbers and new episodes, which follow from seed and steps done alone."""
    steps = np.random.SeedSequence([model.seed or 0, model.num_timesteps])
    seed = int(steps.generate_state(1)[0])
    set_random_seed(seed)
    env: Any = model.env
    env.seed(seed)
    model._last_obs = env.reset()
    model._last_episode_starts = np.ones(env.num_envs, dtype=np.bool_)


def resumed(model: Algorithm, path: str | Path) -> Algorithm:
    """The model of a checkpoint in the environment of ``model``, or ``model`` where none is."""
    file = zipped(path)
    if not file.is_file():
        return model
    return type(model).load(file, env=model.get_env(), device=model.device)
