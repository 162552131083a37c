"""Tensors in files of the safetensors format, which hold numbers and text, never code.

https://github.com/huggingface/safetensors: the length of a JSON header, the header, raw numbers.
Other tools of the format read them too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from placement_gym.errors import UserError
from placement_gym.files import read_bytes, write_bytes
from placement_gym.schemas.reading import Fields, check, parse_json

TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1"}
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}
METADATA = "__metadata__"
LENGTH_BYTES = 8
ALIGNMENT = 8
MAX_BYTES = 2**30

Length = Annotated[int, Field(ge=0, le=2**40)]


class TensorFields(Fields):
    """Type, shape and place of a tensor."""

    dtype: str
    shape: Annotated[list[Length], Field(max_length=32)]
    data_offsets: Annotated[list[Length], Field(min_length=2, max_length=2)]


def write_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors and texts.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
    """
    header: dict[str, Any] = {METADATA: dict(metadata)}
    arrays, end = [], 0
    for name, tensor in tensors.items():
        array = np.ascontiguousarray(tensor.detach().cpu().numpy()).reshape(tuple(tensor.shape))
        begin, end = end, end + array.nbytes
        stated = {"shape": list(array.shape), "data_offsets": [begin, end]}
        header[name] = {"dtype": NAMES[array.dtype], **stated}
        arrays.append(array.tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    length = len(text).to_bytes(LENGTH_BYTES, "little")
    write_bytes(path, b"".join([length, text, *arrays]), follow=True)


def read_safetensors(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read the arrays and texts of a file.

    Raises:
        FileError: The file cannot be read.
        UserError: It is not of this format, or damaged.
    """
    content = read_bytes(path, MAX_BYTES)
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    header, numbers = content[LENGTH_BYTES:][:length], content[LENGTH_BYTES + length :]
    stated = parse_json(header) if len(header) == length > 0 else None
    if not isinstance(stated, dict) or not is_text(stated.get(METADATA, {})):
        raise UserError("it is not a safetensors file, or damaged")
    metadata: dict[str, str] = stated.pop(METADATA, {})
    arrays = {name: make_array(numbers, value, name) for name, value in stated.items()}
    return arrays, metadata


def is_text(metadata: Any) -> bool:
    """Whether metadata are texts by name."""
    return isinstance(metadata, dict) and all(isinstance(text, str) for text in metadata.values())


def make_array(numbers: bytes, stated: Any, name: str) -> NDArray[Any]:
    """The array that a header states.

    Raises:
        UserError: Its numbers are not there, or of another type.
    """
    fields = check(TensorFields, stated)
    begin, end = fields.data_offsets
    if fields.dtype not in TYPES:
        raise UserError(f"{name!r:.80} has type {fields.dtype!r:.20}, not one of {[*TYPES]}")
    kind = np.dtype(TYPES[fields.dtype])
    if not end <= len(numbers) or end - begin != prod(fields.shape) * kind.itemsize:
        raise UserError(f"{name!r:.80} has no numbers for its shape: the file is damaged")
    return np.frombuffer(numbers[begin:end], kind).reshape(fields.shape).copy()
