"""A model's weights and knowledge as a file of numbers, which holds no code."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from pydantic import AfterValidator, Field, FiniteFloat
from stable_baselines3.common.base_class import BaseAlgorithm
from torch import Tensor
from torch.optim import Optimizer

from agents.common.archive import read_archive, write_archive
from agents.common.callbacks import Best
from placement_gym.base.errors import UserError
from placement_gym.base.files import FileError
from placement_gym.base.schemas.reading import Fields, check

Algorithm = TypeVar("Algorithm", bound=BaseAlgorithm)


@runtime_checkable
class HasTrainingState(Protocol):
    """An algorithm that knows more than its weights."""

    def get_training_state(self) -> dict[str, Any]:
        """Nested plain values and arrays."""

    def set_training_state(self, state: dict[str, Any]) -> None:
        """Take what ``get_training_state`` returned, keys as text.

        Raises:
            UserError: It has another form; nothing is taken then.
        """


def check_assignment(value: Any) -> Any:
    """Return the device indices of a best placement.

    Raises:
        ValueError: It is another value; for schemas.
    """
    if not isinstance(value, np.ndarray) or value.dtype != np.int64 or value.ndim != 1:
        raise ValueError("it must be an array of device indices")
    return value


class BestFields(Fields):
    """The best placement of a training."""

    assignment: Annotated[Any, AfterValidator(check_assignment)]
    speedup: FiniteFloat
    latency_ms: FiniteFloat
    problem: str


class CheckpointFields(Fields):
    """What ``save`` writes."""

    algorithm: str
    policy: str
    num_timesteps: int = Field(ge=0, le=2**53)
    n_updates: int = Field(ge=0, le=2**53)
    progress: FiniteFloat
    weights: dict[str, Any]
    optimizer: dict[str, Any]
    best_placement: BestFields | None
    training: dict[str, Any]


def save(model: BaseAlgorithm, path: str | Path) -> None:
    """Write weights, optimizer and what a training knows, as numbers alone.

    Settings are not kept: ``restore`` needs a model that was made with the same ones. Algorithms
    with further knowledge have ``get_training_state`` and ``set_training_state``.

    Args:
        model: Any algorithm of SB3 with a policy and its optimizer.
        path: A file; SB3 cannot load it.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
    """
    policy: Any = model.policy
    best: Best | None = getattr(model, "best_placement", None)
    values = {
        "algorithm": type(model).__name__,
        "policy": type(policy).__name__,
        "num_timesteps": model.num_timesteps,
        "n_updates": model._n_updates,
        "progress": model._current_progress_remaining,
        "weights": policy.state_dict(),
        "optimizer": policy.optimizer.state_dict()["state"],
        "best_placement": None if best is None else best._asdict(),
        "training": model.get_training_state() if isinstance(model, HasTrainingState) else {},
    }
    write_archive(path, values)


def restore(model: Algorithm, path: str | Path) -> Algorithm:
    """Give a model the weights and the knowledge of one that ``save`` wrote; returns it.

    Args:
        model: Made with the same settings, in an environment with the same spaces.
        path: What ``save`` wrote, by anyone: nothing in it is run.

    Raises:
        FileError: The file cannot be read.
        UserError: It is damaged, or was saved from another kind of model; the model is unchanged
            then.
    """
    policy: Any = model.policy
    algorithm: Any = model
    try:
        check_is_no_pickle(model, path)
        fields = check(CheckpointFields, read_archive(path))
        names = type(model).__name__, type(policy).__name__
        if (fields.algorithm, fields.policy) != names:
            raise UserError(f"it is of {fields.algorithm} with {fields.policy}, not of {names}")
        weights = to_tensors(fields.weights, policy.state_dict())
        moments = read_moments(fields.optimizer, policy)
        check_step(policy.optimizer, moments)
        best = None if fields.best_placement is None else Best(**vars(fields.best_placement))
        if isinstance(algorithm, HasTrainingState):
            algorithm.set_training_state(fields.training)
    except FileError:
        raise
    except UserError as error:
        raise UserError(f"{path} does not match this model, or its settings: {error}") from error
    policy.load_state_dict(weights)
    state = policy.optimizer.state_dict()
    policy.optimizer.load_state_dict({**state, "state": moments})
    model.num_timesteps, model._n_updates = fields.num_timesteps, fields.n_updates
    model._current_progress_remaining = fields.progress
    if best is not None:
        model.best_placement = best  # type: ignore[attr-defined]
    return model


def check_is_no_pickle(model: BaseAlgorithm, path: str | Path) -> None:
    """Raise if a file is one of SB3's ``save``, which is pickled.

    Raises:
        UserError: It is; the message says what loads it.
    """
    try:
        with zipfile.ZipFile(path) as opened:
            pickled = "policy.pth" in opened.namelist()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return  # read_archive says why
    if pickled:
        raise UserError(
            f"it is a file of SB3's save, not of a checkpoint: {type(model).__name__}.load reads "
            "it, and runs what it holds"
        )


def to_tensors(given: dict[str, Any], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors from arrays, which need the names, shapes and types of those that are there.

    Raises:
        UserError: They differ, or are not finite.
    """
    if set(given) != set(like):
        strange = sorted(set(given) ^ set(like))[0]
        raise UserError(f"its weights differ from the model's, as in {strange!r:.80}")
    tensors = {}
    for name, value in given.items():
        found = torch.from_numpy(value) if isinstance(value, np.ndarray) else None
        if found is None or found.shape != like[name].shape or found.dtype != like[name].dtype:
            raise UserError(
                f"{name} must be {like[name].dtype} of shape {tuple(like[name].shape)}; was it "
                "saved with other features or devices? train it again, or load it with the "
                "version and the settings that it was saved with"
            )
        if not torch.isfinite(found).all():
            raise UserError(f"{name} holds NaN or infinite weights, as training does that diverges")
        tensors[name] = found
    return tensors


def read_moments(given: dict[str, Any], policy: Any) -> dict[int, dict[str, Any]]:
    """The optimizer's state of each parameter, which is a number or has the parameter's shape.

    Raises:
        UserError: It has another form.
    """
    shapes = [one.shape for group in policy.optimizer.param_groups for one in group["params"]]
    moments: dict[int, dict[str, Any]] = {}
    for key, values in given.items():
        if not key.isdecimal() or len(key) > 9 or int(key) >= len(shapes):
            raise UserError(f"its optimizer has a parameter {key!r:.60}, this one {len(shapes)}")
        if not isinstance(values, dict):
            raise UserError(f"its optimizer has no state of parameter {key}")
        tensors = moments[int(key)] = {}
        for name, value in values.items():
            if not isinstance(value, np.ndarray) or value.shape not in ((), shapes[int(key)]):
                raise UserError(f"{name!r:.60} of parameter {key} has another shape")
            tensors[name] = torch.from_numpy(value)
    return moments


def check_step(optimizer: Optimizer, moments: dict[int, dict[str, Any]]) -> None:
    """Let a copy of the optimizer, of zero weights and gradients, take a step from its moments.

    Raises:
        UserError: It fails, or leaves weights that are not finite.
    """
    trial = deepcopy(optimizer)
    weights = [one for group in trial.param_groups for one in group["params"]]
    for one in weights:
        one.data.zero_()
        one.grad = torch.zeros_like(one)
    try:
        trial.load_state_dict({**trial.state_dict(), "state": deepcopy(moments)})
        trial.step()
    except Exception as error:
        raise UserError(f"its optimizer cannot go on: {type(error).__name__}: {error}") from error
    if not all(bool(torch.isfinite(one).all()) for one in weights):
        raise UserError("its optimizer's state is not finite, or not one of this optimizer")
