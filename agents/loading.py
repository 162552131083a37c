"""Loading of models that ``model.save`` wrote."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from stable_baselines3.common.save_util import open_path

from placement_gym.base import UserError


def load(path: str | Path, env: Any = None, **settings: Any) -> Any:
    """Load a model that ``model.save`` wrote, by the algorithm that the file names.

    Only load files that you trust: they are pickled, and loading one runs the code in it.
    ``agents.save_weights`` writes files that are safe to share.

    Args:
        path: The file.
        env: Where the model continues, as for ``make``: of the same graph or another one with the
            same ``max_nodes``, ``max_edges`` and ``max_devices``. None is enough to predict.
        settings: Attributes of the model that change, such as ``learning_rate``.

    Raises:
        FileNotFoundError: There is no such file.
        UserError: It is not of an algorithm of this package, or the environment has other sizes.
    """
    module, _, name = read_algorithm(path).partition(":")
    try:
        algorithm = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{path} was saved by {module}:{name}, which is not here") from error
    return algorithm.load(path, env, **settings)


def read_algorithm(path: Any) -> str:
    """Read ``"module:class"`` of a saved model's algorithm; no code in the file is run."""
    try:
        with open_path(path, "r", suffix="zip") as file, ZipFile(file) as archive:
            saved: dict[str, Any] = json.loads(archive.read("data"))
    except (BadZipFile, KeyError, ValueError) as error:
        raise UserError(f"{path} is not a model that was saved: {error}") from error
    if "algorithm" not in saved:
        raise UserError(
            f"{path} names no algorithm of this package: load it by the class that saved it, as "
            "PPO.load(path, env)"
        )
    return str(saved["algorithm"])
