"""Saving and loading of weights in safetensors files.

These contain no code, unlike the pickled files of Stable-Baselines3's ``save``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from placement_gym.base import FileError, UserError, read_bytes, write_bytes

MAX_BYTES = 2**30


def save_weights(model: Any, path: str | Path) -> None:
    """Write the weights of a model as safetensors, a format without code that is safe to share.

    ``agents.make(name, env, weights=path)`` loads them.

    Args:
        model: A learned agent, any algorithm of SB3, a policy or another network.
        path: The file, which is replaced.

    Raises:
        FileError: The file cannot be written; an existing one is unchanged.
        UserError: The model has no weights.
    """
    state = find_network(model).state_dict()
    # the format refuses tensors that share memory
    copies = {name: one.detach().cpu().contiguous().clone() for name, one in state.items()}
    write_bytes(path, save(copies), follow=True)


def load_weights(model: Any, path: str | Path) -> None:
    """Load weights that ``save_weights`` wrote into a model; no code in the file is run.

    Args:
        model: An algorithm of SB3 or a policy with the same options, for any graph. Weights of
            single graphs are kept unless the file has them.
        path: The file.

    Raises:
        FileError: The file cannot be read.
        UserError: The file is damaged or of another policy, or the model has no weights.
    """
    network = find_network(model)
    state = network.state_dict()
    # tables of other graphs are left out, and those that the file lacks are kept
    tables = getattr(network, "of_one_graph", ())
    kept = {name: one.numpy() for name, one in state.items() if name.startswith(tables)}
    try:
        arrays = read_safetensors(path)
        loaded = {k: one for k, one in arrays.items() if k in kept or not k.startswith(tables)}
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


def read_safetensors(path: str | Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a file; no code in it is run."""
    read_bytes(path, MAX_BYTES)
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, AttributeError) as error:  # also for types NumPy lacks
        raise UserError(f"it is not a safetensors file, or damaged: {error}") from error


def to_tensors(arrays: Mapping[str, NDArray[Any]], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Make tensors of arrays; a ``UserError`` unless they are like other tensors, and finite."""
    if set(arrays) != set(like):
        mismatch = sorted(set(arrays) ^ set(like))[0]
        raise UserError(f"its weights differ from the model's, as in {mismatch!r:.80}")
    tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
    for name, tensor in tensors.items():
        if tensor.shape != like[name].shape or tensor.dtype != like[name].dtype:
            raise UserError(
                f"{name} must be {like[name].dtype} of shape {tuple(like[name].shape)}: load it "
                "with the version, features and devices with which it was saved, or train again"
            )
        if not torch.isfinite(tensor).all():
            raise UserError(
                f"{name} has NaN or infinite weights, as after a training that diverged"
            )
    return tensors
