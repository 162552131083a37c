"""Weights in safetensors files, which contain no code: saving and loading.

A file has arrays by name, and plain values as JSON in its metadata. Files of Stable-Baselines3's
``save`` are pickled instead: loading one runs the code in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from placement_gym.base import FileError, UserError, read_bytes, write_bytes
from placement_gym.base.schemas import parse_json

ABOUT = "placement_gym"
"""Key of the file's metadata whose value is JSON."""
MAX_BYTES = 2**30


def save_weights(model: Any, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
    """Write the weights of a model as safetensors, a format without code that is safe to share.

    ``agents.make(name, env, weights=path)`` loads them.

    Args:
        model: A learned agent, any algorithm of SB3, a policy or another network.
        path: The file, which is replaced.
        about: Plain values that describe the training.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
        UserError: The model has no weights.
    """
    write_safetensors(path, find_network(model).state_dict(), about or {})


def load_weights(model: Any, path: str | Path) -> None:
    """Load weights that ``save_weights`` wrote into a model; nothing in a file is run.

    Args:
        model: Made with the same options, for any graph: an algorithm of SB3, or a policy. Weights
            of one graph alone stay as they are if the file has none.
        path: The file.

    Raises:
        FileError: The file cannot be read.
        UserError: The file is damaged or of another policy, or the model has no weights.
    """
    network = find_network(model)
    state = network.state_dict()
    # Tables hold for one graph: those of others are left out, and those that the file lacks stay.
    tables = getattr(network, "of_one_graph", ())
    kept = {name: one.numpy() for name, one in state.items() if name.startswith(tables)}
    try:
        arrays, _ = read_safetensors(path)
        loaded = {name: arrays[name] for name in arrays if not name.startswith(tables)}
        loaded |= {name: arrays[name] for name in arrays.keys() & kept.keys()}
        network.load_state_dict(to_tensors(kept | loaded, state))
    except FileError:
        raise
    except UserError as error:
        raise UserError(
            f"{path} does not fit this policy: {error}; make the agent with the preset and the "
            "options with which the weights were trained"
        ) from error


def find_network(model: Any) -> nn.Module:
    """Find the network of a model: itself, its policy, or its attribute ``network``."""
    places = (model, getattr(model, "policy", None), getattr(model, "network", None))
    networks = [one for one in places if isinstance(one, nn.Module)]
    if not networks:
        raise UserError(f"{type(model).__name__} has no network, and so no weights to save or load")
    return networks[0]


def write_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]
) -> None:
    """Write tensors, and plain values as JSON; a ``FileError`` leaves the file that was there."""
    # Copies, since the format refuses tensors that share memory.
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    metadata = {ABOUT: json.dumps(about, allow_nan=False)}
    write_bytes(path, save(copies, metadata), follow=True)


def read_safetensors(path: str | Path) -> tuple[dict[str, NDArray[Any]], Any]:
    """Read the arrays and the plain values of a file; nothing in it is run.

    Raises:
        FileError: The file cannot be read.
        UserError: It is not of this format, or damaged.
    """
    read_bytes(path, MAX_BYTES)
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
    except (SafetensorError, TypeError, AttributeError) as error:  # types that NumPy lacks, too
        raise UserError(f"it is not a safetensors file, or damaged: {error}") from error
    return arrays, parse_json(metadata.get(ABOUT, "{}"))


def to_tensors(arrays: Mapping[str, NDArray[Any]], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Make tensors of arrays that have the names, shapes and types of other tensors.

    Raises:
        UserError: They differ, or are not finite.
    """
    if set(arrays) != set(like):
        mismatch = sorted(set(arrays) ^ set(like))[0]
        raise UserError(f"its weights differ from the model's, as in {mismatch!r:.80}")
    tensors = {}
    for name, value in arrays.items():
        tensor = torch.from_numpy(value)
        if tensor.shape != like[name].shape or tensor.dtype != like[name].dtype:
            raise UserError(
                f"{name} must be {like[name].dtype} of shape {tuple(like[name].shape)}: load it "
                "with the version, features and devices with which it was saved, or train again"
            )
        if not torch.isfinite(tensor).all():
            raise UserError(
                f"{name} has NaN or infinite weights, as after a training that diverged"
            )
        tensors[name] = tensor
    return tensors


@contextmanager
def explain_mismatch(path: Any) -> Iterator[None]:
    """Explain a mismatch between weights that SB3 saved and the networks.

    Raises:
        UserError: Shapes differ, as after a change of features.
    """
    try:
        yield
    except RuntimeError as error:
        if "size mismatch" not in str(error):
            raise
        raise UserError(
            f"{path} was saved with other features: train it again, or load it with the version "
            "of placement-gym that saved it"
        ) from error
