"""Weights in files that hold no code: to save, to pass on, and to begin with by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray
from torch import nn

from agents.common.safetensors import read_safetensors, write_safetensors
from agents.common.saving import to_tensors
from placement_gym.base.errors import UserError, unknown_name
from placement_gym.base.files import FileError, is_path
from placement_gym.base.schemas.reading import parse_json

SUFFIX = ".safetensors"
ABOUT = "placement_gym"
"""Key of the file's metadata whose value says how the weights were made."""


@runtime_checkable
class DescribesWeights(Protocol):
    """An agent whose weights are read again without an agent of the same options."""

    def describe_weights(self) -> dict[str, Any]:
        """What the reader needs: plain values."""


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
        "keep its weights by agents.save_weights"
    )


def save_weights(model: Any, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
    """Write the weights of a model as safetensors, which hold no code: the format to pass on.

    Args:
        model: A learned agent, any algorithm of SB3, a policy or another network.
        path: The file, which is replaced.
        about: How it was trained, plain values.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
    """
    described = model.describe_weights() if isinstance(model, DescribesWeights) else {}
    weights = {name: one.contiguous() for name, one in find_network(model).state_dict().items()}
    text = json.dumps({**described, **(about or {})}, allow_nan=False)
    write_safetensors(path, weights, {ABOUT: text})


def read_weights(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays that ``save_weights`` wrote, and what it wrote about them; nothing is run.

    Raises:
        FileError: The file cannot be read.
        UserError: It is damaged, or of another format.
    """
    arrays, metadata = read_safetensors(path)
    return arrays, parse_json(metadata.get(ABOUT, "{}"))


def load_weights(model: Any, weights: str | Path, folder: Path | None = None) -> None:
    """Give a model the weights that ``save_weights`` wrote, by anyone: nothing in a file is run.

    Args:
        model: Made with the same options, for any graph: an algorithm of SB3, or a policy.
        weights: A path; or the name of a file in ``folder / "weights"``.
        folder: That of the agent; None takes paths alone.

    Raises:
        FileError: The file cannot be read.
        UserError: There is none of that name; or it is damaged, or of another policy.
    """
    path = Path(weights) if folder is None else find_weights(weights, folder)
    network = find_network(model)
    try:
        arrays, _ = read_weights(path)
        network.load_state_dict(to_tensors(arrays, network.state_dict()))
    except FileError:
        raise
    except UserError as error:
        raise UserError(
            f"{path} has no weights of this policy: {error}; make the agent with the preset and "
            "the options that they were trained with"
        ) from error


def find_network(model: Any) -> nn.Module:
    """The network of a model: itself, its policy, or what it calls its network."""
    if isinstance(model, nn.Module):
        return model
    network: nn.Module = model.policy if hasattr(model, "policy") else model.network
    return network
