"""Files of the safetensors format: what they hold, and damaged ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from agents.common.safetensors import read_safetensors, write_safetensors
from placement_gym.errors import UserError
from placement_gym.files import FileError

TENSORS = {"a.b": torch.arange(6.0).reshape(2, 3), "one": torch.tensor(3), "none": torch.empty(0)}


def make_file(header: object, numbers: bytes = b"") -> bytes:
    """A file with a header as it should be laid out, whatever the header says."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


def test_tensors_and_texts_come_back(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    write_safetensors(file, TENSORS, {"about": "{}"})
    arrays, metadata = read_safetensors(file)
    assert metadata == {"about": "{}"}
    assert {name: (a.shape, a.dtype.name) for name, a in arrays.items()} == {
        "a.b": ((2, 3), "float32"),
        "one": ((), "int64"),
        "none": ((0,), "float32"),
    }
    assert all((array == TENSORS[name].numpy()).all() for name, array in arrays.items())


def test_the_layout_is_that_of_the_format(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    write_safetensors(file, {"a": torch.tensor([1.5, 2.5])}, {})
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    assert length % 8 == 0
    stated = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    assert json.loads(content[8 : 8 + length]) == {"__metadata__": {}, "a": stated}
    assert np.frombuffer(content[8 + length :], "<f4").tolist() == [1.5, 2.5]


def state(dtype: str = "F32", shape: tuple[int, ...] = (1,), end: int = 4, begin: int = 0) -> bytes:
    """A file of four bytes whose header states one tensor."""
    return make_file({"a": {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}}, b"1234")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a safetensors file"),
        (b"\xff" * 40, "not a safetensors file"),
        (make_file([]), "not a safetensors file"),
        (make_file({"__metadata__": {"a": 1}}), "not a safetensors file"),
        (state(shape=(2,), end=8), "damaged"),
        (state(begin=4, end=0), "damaged"),
        (state(dtype="O"), "type 'O'"),
        (state(shape=(-1,)), "shape"),
    ],
)
def test_damaged_files_are_refused(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    file.write_bytes(content)
    with pytest.raises(UserError, match=said):
        read_safetensors(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="gone"):
        read_safetensors(tmp_path / "gone.safetensors")
