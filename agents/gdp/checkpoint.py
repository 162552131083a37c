"""Weights of GO's network in safetensors files, which hold no code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agents.common.safetensors import read_safetensors, write_safetensors
from agents.common.saving import to_tensors
from agents.gdp.policy import GONetwork
from placement_gym.errors import UserError
from placement_gym.files import FileError

ABOUT = "placement_gym"
"""Key of the file's metadata: how the weights were learned, in JSON."""


def save_weights(network: GONetwork, path: str | Path, training: dict[str, Any]) -> None:
    """Write the weights of a network, without its critic.

    Args:
        network: To be saved.
        path: The file, which is replaced.
        training: How it was trained, plain values.

    Raises:
        FileError: It cannot be written.
    """
    write_safetensors(path, network.state_dict(), {ABOUT: json.dumps(training, allow_nan=False)})


def load_weights(network: GONetwork, path: str | Path) -> None:
    """Give a network the weights of a file; nothing in it is run.

    Raises:
        FileError: The file cannot be read.
        UserError: It is damaged, or the network has other options.
    """
    try:
        weights, _ = read_safetensors(path)
        network.load_state_dict(to_tensors(weights, network.state_dict()))
    except FileError:
        raise
    except UserError as error:
        raise UserError(f"{path} holds no weights of this network: {error}") from error
