"""Weights and texts in safetensors files, which hold no code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from placement_gym.base.errors import UserError
from placement_gym.base.files import read_bytes, write_bytes

MAX_BYTES = 2**30


def write_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors and texts.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
    """
    write_bytes(path, save(dict(tensors), dict(metadata)), follow=True)


def read_safetensors(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read the arrays and texts of a file; float16 becomes float32.

    Raises:
        FileError: The file cannot be read.
        UserError: It is not of this format, or damaged.
    """
    read_bytes(path, MAX_BYTES)
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: widen(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
            return arrays, file.metadata() or {}
    except (SafetensorError, TypeError) as error:
        raise UserError(f"it is not a safetensors file, or damaged: {error}") from error


def halve_file(path: str | Path) -> None:
    """Write the float32 weights of a file as float16, which is enough for those that only predict.

    Raises:
        FileError: The file cannot be read or written.
        UserError: It is not of this format, or damaged.
    """
    arrays, metadata = read_safetensors(path)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    halved = {
        name: tensor.half() if tensor.dtype == torch.float32 else tensor
        for name, tensor in tensors.items()
    }
    write_safetensors(path, halved, metadata)


def widen(array: NDArray[Any]) -> NDArray[Any]:
    """float32 for float16, and other arrays as they are."""
    return array.astype(np.float32) if array.dtype == np.float16 else array
