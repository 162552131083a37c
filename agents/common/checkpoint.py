"""Checkpoints from which a training resumes with the same result as without a stop.

They are safetensors files of the weights, the optimizer and the training's state. Settings are not
saved: a checkpoint is restored into a model that was made with the same settings.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import set_random_seed
from torch.optim import Optimizer

from agents.common.callbacks import Best
from agents.common.learner import OnPolicyLearner
from agents.common.weights import read_safetensors, to_tensors, write_safetensors
from placement_gym.base.errors import UserError
from placement_gym.base.files import FileError, is_file
from placement_gym.base.schemas.reading import Fields, check

Algorithm = TypeVar("Algorithm", bound=BaseAlgorithm)


class Checkpoint(BaseCallback):
    """Saves the model between rollouts so that a resumed run equals an uninterrupted one.

    A resumed run repeats the steps after the last checkpoint. At every checkpoint, and when
    training starts, random generators are reseeded and environments reset; the seed depends on the
    model's seed and the number of steps only, so no generator state has to be saved.

        model = resume(REINFORCE("MultiInputPolicy", env, seed=0), "run.safetensors")
        left = total - model.num_timesteps
        model.learn(left, Checkpoint("run.safetensors", every=100), reset_num_timesteps=False)

    Args:
        path: A file, replaced by each checkpoint; see ``save``.
        every: Minimum number of steps between two checkpoints.
        verbose: As for SB3's callbacks.
    """

    def __init__(self, path: str | Path, every: int, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.path, self.every = Path(path), every
        self.saved_at = 0

    def _on_training_start(self) -> None:
        self.saved_at = self.num_timesteps
        restart(self.model)

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        # Between rollouts the buffer is empty, so that it need not be saved.
        if self.due:
            self.save()
            restart(self.model)

    def _on_training_end(self) -> None:
        if self.due and self.model.rollout_buffer.full:  # type: ignore[attr-defined]
            self.save()

    @property
    def due(self) -> bool:
        """True if ``every`` steps have passed since the last checkpoint."""
        return self.model.num_timesteps - self.saved_at >= self.every

    def save(self) -> None:
        """Replace the file; if the process is killed meanwhile, the old file stays intact."""
        self.saved_at = self.model.num_timesteps
        self.path.parent.mkdir(parents=True, exist_ok=True)
        save(self.model, self.path)


def restart(model: BaseAlgorithm) -> None:
    """Reseed all generators from the model's seed and number of steps, and reset the episodes."""
    # From the seed and the steps alone: a resumed run reseeds to the same, with no generator to
    # save.
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
    return restore(model, path) if is_file(path) else model


class BestFields(Fields):
    """The best placement of a training."""

    assignment: list[Annotated[int, Field(ge=0, le=255)]]
    speedup: FiniteFloat
    latency_ms: FiniteFloat
    problem: str


class CheckpointFields(Fields):
    """The plain values that ``save`` writes."""

    algorithm: str
    policy: str
    num_timesteps: int = Field(ge=0, le=2**53)
    n_updates: int = Field(ge=0, le=2**53)
    progress: FiniteFloat
    best_placement: BestFields | None


def save(model: BaseAlgorithm, path: str | Path) -> None:
    """Write weights, optimizer and the state of a training, as numbers alone.

    Args:
        model: Any algorithm of SB3 with a policy and its optimizer.
        path: A file; SB3 cannot load it.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
    """
    policy: Any = model.policy
    # Safetensors hold arrays by name alone: the nested state is flattened to part/name.
    moments = policy.optimizer.state_dict()["state"]
    parts: dict[str, Mapping[str, Any]] = {
        "weights": policy.state_dict(),
        "optimizer": {f"{i}/{name}": value for i in moments for name, value in moments[i].items()},
        **(model.get_training_state() if isinstance(model, OnPolicyLearner) else {}),
    }
    best: Best | None = getattr(model, "best_placement", None)
    fields = {
        "algorithm": type(model).__name__,
        "policy": type(policy).__name__,
        "num_timesteps": model.num_timesteps,
        "n_updates": model._n_updates,
        "progress": model._current_progress_remaining,
        "best_placement": best and {**best._asdict(), "assignment": best.assignment.tolist()},
    }
    arrays = {f"{part}/{name}": value for part in parts for name, value in parts[part].items()}
    write_safetensors(
        path, {name: torch.as_tensor(value) for name, value in arrays.items()}, fields
    )


def restore(model: Algorithm, path: str | Path) -> Algorithm:
    """Load weights and state that ``save`` wrote into a model; returns it.

    Args:
        model: Made with the same settings, in an environment with the same spaces.
        path: A file of ``save``, by anyone: nothing in it is run.

    Raises:
        FileError: The file cannot be read.
        UserError: It is damaged, or was saved from another kind of model; the model is unchanged
            then.
    """
    policy: Any = model.policy
    algorithm: Any = model
    # Everything is checked before anything changes, so that an error leaves the model as it was.
    try:
        parts, fields = read_checkpoint(path, type(model).__name__)
        names = type(model).__name__, type(policy).__name__
        if (fields.algorithm, fields.policy) != names:
            raise UserError(
                f"saved by {fields.algorithm:.80} with policy {fields.policy:.80}; this model is "
                f"{names[0]} with policy {names[1]}"
            )
        weights = to_tensors(parts.pop("weights", {}), policy.state_dict())
        moments = read_moments(parts.pop("optimizer", {}), policy.optimizer)
        if isinstance(model, OnPolicyLearner):
            model.set_training_state(parts)
    except FileError:
        raise
    except UserError as error:
        raise UserError(f"{path} does not match this model, or its settings: {error}") from error
    policy.load_state_dict(weights)
    state = policy.optimizer.state_dict()
    policy.optimizer.load_state_dict({**state, "state": moments})
    model.num_timesteps, model._n_updates = fields.num_timesteps, fields.n_updates
    model._current_progress_remaining = fields.progress
    if fields.best_placement is not None:
        best = Best(**vars(fields.best_placement))
        algorithm.best_placement = best._replace(assignment=np.array(best.assignment, np.int64))
    return model


def read_checkpoint(
    path: str | Path, algorithm: str
) -> tuple[dict[str, dict[str, NDArray[Any]]], CheckpointFields]:
    """Read the arrays of a checkpoint by part and name, and its plain values.

    Raises:
        FileError: The file cannot be read.
        UserError: It is damaged, or a file of SB3's ``save``, which is pickled.
    """
    if zipfile.is_zipfile(path):
        raise UserError(
            f"it is a file of SB3's save, not a checkpoint: read it by {algorithm}.load, which "
            "runs the code in it, if you trust its source"
        )
    arrays, fields = read_safetensors(path)
    parts: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        part, _, field_name = name.partition("/")
        parts.setdefault(part, {})[field_name] = array
    return parts, check(CheckpointFields, fields)


def read_moments(
    arrays: Mapping[str, NDArray[Any]], optimizer: Optimizer
) -> dict[int, dict[str, torch.Tensor]]:
    """Read the optimizer's state of each parameter.

    A copy of the optimizer takes a trial step from them, with zero weights and gradients.

    Raises:
        UserError: It fails, or leaves weights that are not finite.
    """
    # Moments of a wrong shape or a wrong key fail in a step only, which then has changed the
    # weights.
    trial = deepcopy(optimizer)
    weights = [weight for group in trial.param_groups for weight in group["params"]]
    for weight in weights:
        weight.data.zero_()
        weight.grad = torch.zeros_like(weight)
    moments: dict[int, dict[str, torch.Tensor]] = {}
    try:
        for name, array in arrays.items():
            parameter, _, moment = name.partition("/")
            if array.shape not in ((), weights[int(parameter)].shape):
                raise ValueError(f"{name!r:.60} has another shape")
            moments.setdefault(int(parameter), {})[moment] = torch.from_numpy(array)
        trial.load_state_dict({**trial.state_dict(), "state": deepcopy(moments)})
        trial.step()
    except Exception as error:
        raise UserError(
            f"its optimizer cannot continue: {type(error).__name__}: {error}"
        ) from error
    if not all(bool(torch.isfinite(weight).all()) for weight in weights):
        raise UserError("its optimizer's state is not finite, or not one of this optimizer")
    return dict(sorted(moments.items()))
