"""Arrays and plain values in one file that holds no code: a zip of raw numbers and one JSON."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from placement_gym.base.errors import UserError
from placement_gym.base.files import FileError, replace_file
from placement_gym.base.schemas.reading import MAX_DEPTH, Fields, check, parse_json

CONTENTS = "contents.json"
FORMAT = 1
TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
ARRAY = "array"
"""Key of an object that stands for an array, whose value is the array's index."""
MAX_JSON_BYTES = 2**28

Length = Annotated[int, Field(ge=0, le=2**40)]


class ArrayFields(Fields):
    """Type and shape of an array."""

    type: str
    shape: Annotated[list[Length], Field(max_length=32)]


class ContentFields(Fields):
    """The JSON of an archive."""

    format: int
    values: dict[str, Any]
    arrays: list[ArrayFields]


def write_archive(path: str | Path, values: Mapping[str, Any]) -> None:
    """Write nested plain values, arrays and tensors among them.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
        TypeError: A value is neither plain nor an array.
    """
    arrays: list[NDArray[Any]] = []
    plain = _take_arrays(values, arrays)
    stated = [{"type": array.dtype.name, "shape": list(array.shape)} for array in arrays]
    contents = {"format": FORMAT, "values": plain, "arrays": stated}
    with replace_file(path, follow=True) as new, zipfile.ZipFile(new, "w") as opened:
        opened.writestr(CONTENTS, json.dumps(contents, allow_nan=False))
        for index, array in enumerate(arrays):
            opened.writestr(str(index), array.tobytes())


def _take_arrays(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """The value with arrays replaced by their index in ``arrays``."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        if value.dtype.name not in TYPES:
            raise TypeError(f"an array of {value.dtype} cannot be kept, only {TYPES}")
        arrays.append(np.ascontiguousarray(value).reshape(value.shape))
        return {ARRAY: len(arrays) - 1}
    if isinstance(value, Mapping):
        return {str(key): _take_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_take_arrays(item, arrays) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be kept without pickle")


def read_archive(path: str | Path) -> dict[str, Any]:
    """Read what ``write_archive`` wrote; lists stand for tuples, arrays for tensors.

    Raises:
        FileError: The file cannot be read.
        UserError: It is no archive, or damaged; the message says where.
    """
    try:
        with zipfile.ZipFile(path) as opened:
            return _read_entries(opened, Path(path).stat().st_size)
    except UserError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def _read_entries(opened: zipfile.ZipFile, size: int) -> dict[str, Any]:
    """The values of an archive whose entries are as large as the file at most."""
    entries = {entry.filename: entry for entry in opened.infolist()}
    compressed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries.values())
    if compressed or sum(entry.file_size for entry in entries.values()) > size:
        raise ValueError("its entries are compressed, or lie over each other")
    if CONTENTS not in entries or entries[CONTENTS].file_size > MAX_JSON_BYTES:
        raise ValueError(f"it has no {CONTENTS}, or a huge one")
    contents = check(ContentFields, parse_json(opened.read(CONTENTS)))
    if contents.format != FORMAT:
        raise ValueError(f"its format is {contents.format}, this version reads {FORMAT}")
    arrays = []
    for index, stated in enumerate(contents.arrays):
        if str(index) not in entries:
            raise ValueError(f"array {index} is missing")
        arrays.append(_make_array(opened.read(str(index)), stated))
    values: dict[str, Any] = _put_arrays(contents.values, arrays, 0)
    return values


def _make_array(content: bytes, stated: ArrayFields) -> NDArray[Any]:
    if stated.type not in TYPES:
        raise ValueError(f"an array has type {stated.type!r}, not one of {TYPES}")
    kind, count = np.dtype(stated.type), 1
    for length in stated.shape:
        count *= length
    if count * kind.itemsize != len(content):
        raise ValueError(f"an array of {len(content)} bytes has no shape {stated.shape}")
    return np.frombuffer(content, kind).reshape(stated.shape).copy()


def _put_arrays(value: Any, arrays: list[NDArray[Any]], depth: int) -> Any:
    """The inverse of ``_take_arrays``."""
    if depth > MAX_DEPTH:
        raise ValueError(f"more than {MAX_DEPTH} levels")
    if isinstance(value, dict) and set(value) == {ARRAY}:
        index = value[ARRAY]
        if not isinstance(index, int) or not 0 <= index < len(arrays):
            raise ValueError(f"there is no array {index!r:.60}")
        return arrays[index]
    if isinstance(value, dict):
        return {key: _put_arrays(item, arrays, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_put_arrays(item, arrays, depth + 1) for item in value]
    return value
