"""Checkpoints from which a training resumes with the same result as without a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import set_random_seed

from agents.common.saving import Algorithm, restore, save

__all__ = ["Checkpoint", "restore", "resume", "save"]


class Checkpoint(BaseCallback):
    """Saves the model between rollouts so that a resumed run equals an uninterrupted one.

    A resumed run repeats what followed the last checkpoint. At every checkpoint, and when training
    starts, random generators are reseeded and environments reset; the seed depends on the model's
    seed and the number of steps only, so no generator state has to be saved.

        model = resume(REINFORCE("MultiInputPolicy", env, seed=0), "run.zip")
        left = total - model.num_timesteps
        model.learn(left, Checkpoint("run.zip", every=100), reset_num_timesteps=False)

    Args:
        path: A ``.zip`` file, replaced by each checkpoint; see ``save``.
        every: Minimum number of steps between two checkpoints.
        verbose: As for SB3's callbacks.
    """

    def __init__(self, path: str | Path, every: int, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.path, self.every = with_zip_suffix(path), every
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
        """Whether ``every`` steps have passed since the last checkpoint."""
        return self.model.num_timesteps - self.saved_at >= self.every

    def save(self) -> None:
        """Replace the file; if the process is killed meanwhile, the old file stays intact."""
        self.saved_at = self.model.num_timesteps
        self.path.parent.mkdir(parents=True, exist_ok=True)
        save(self.model, self.path)


def with_zip_suffix(path: str | Path) -> Path:
    """Add the suffix that SB3 gives a saved model."""
    given = Path(path)
    return given if given.suffix == ".zip" else given.with_name(f"{given.name}.zip")


def restart(model: BaseAlgorithm) -> None:
    """Reseed all generators from the model's seed and number of steps, and reset the episodes."""
    steps = np.random.SeedSequence([model.seed or 0, model.num_timesteps])
    seed = int(steps.generate_state(1)[0])
    set_random_seed(seed)
    env: Any = model.env
    env.seed(seed)
    model._last_obs = env.reset()
    model._last_episode_starts = np.ones(env.num_envs, dtype=np.bool_)


def resume(model: Algorithm, path: str | Path) -> Algorithm:
    """Continue from a checkpoint with the environment of ``model``.

    Args:
        model: Made as the one that was saved.
        path: A file of ``Checkpoint`` or ``save``; if there is none, ``model`` is returned.

    Raises:
        FileError: The file cannot be read.
        UserError: It is damaged, or was saved from another kind of model.
    """
    file = with_zip_suffix(path)
    if not file.is_file():
        return model
    return restore(model, file)
