"""Weights of a policy, by the name of those that come with the package or from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agents.common.safetensors import read_safetensors, write_safetensors
from agents.common.saving import to_tensors
from placement_gym.errors import UserError, unknown_name
from placement_gym.files import FileError, is_path

SUFFIX = ".safetensors"
ABOUT = "placement_gym"
"""Key of the file's metadata whose value says how the weights were made."""


def shipped_names(folder: Path) -> list[str]:
    """Names of the weights that lie in an agent's folder."""
    return sorted(path.stem for path in (folder / "weights").glob(f"*{SUFFIX}"))


def find_weights(weights: str | Path, folder: Path) -> Path:
    """The file of weights.

    Args:
        weights: The name of a file in ``folder / "weights"``, or the path of another one.
        folder: That of the agent.

    Raises:
        UserError: It is neither.
    """
    names = shipped_names(folder)
    if str(weights) in names:
        return folder / "weights" / f"{weights}{SUFFIX}"
    if is_path(weights):
        return Path(weights)
    if names:
        raise unknown_name("weights that are not a file", str(weights), names)
    raise UserError(
        f"no weights come with this agent, and {str(weights)!r:.80} is not a file: train it, then "
        "keep its weights by agents.common.weights.save_weights"
    )


def save_weights(model: Any, path: str | Path, about: dict[str, Any]) -> None:
    """Write the weights of a model's policy.

    Args:
        model: Any algorithm of SB3.
        path: The file, which is replaced.
        about: How it was trained, plain values.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
    """
    weights = {name: tensor.contiguous() for name, tensor in model.policy.state_dict().items()}
    write_safetensors(path, weights, {ABOUT: json.dumps(about, allow_nan=False)})


def load_weights(model: Any, weights: str | Path, folder: Path) -> None:
    """Give a model's policy the weights that ``save_weights`` wrote: nothing in a file is run.

    Args:
        model: Made with the same options, for any graph.
        weights: The name of a file in ``folder / "weights"``, or the path of another one.
        folder: That of the agent.

    Raises:
        FileError: The file cannot be read.
        UserError: There is none of that name; or it is damaged, or of another policy.
    """
    path = find_weights(weights, folder)
    try:
        arrays, _ = read_safetensors(path)
        model.policy.load_state_dict(to_tensors(arrays, model.policy.state_dict()))
    except FileError:
        raise
    except UserError as error:
        raise UserError(
            f"{path} has no weights of this policy: {error}; make the agent with the preset and "
            "the options that they were trained with"
        ) from error
