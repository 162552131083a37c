"""Files of weights: what they hold, and damaged ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from agents.common.safetensors import halve_file, read_safetensors, write_safetensors

from placement_gym.errors import UserError
from placement_gym.files import FileError

TENSORS = {"a.b": torch.arange(6.0).reshape(2, 3), "one": torch.tensor(3), "none": torch.empty(0)}


def make_file(header: object, numbers: bytes = b"") -> bytes:
    """A file with a header as it should be laid out, whatever the header says."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


def state(dtype: str = "F32", shape: tuple[int, ...] = (1,), end: int = 4, begin: int = 0) -> bytes:
    """A file of four bytes whose header states one tensor."""
    return make_file({"a": {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}}, b"1234")


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


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 40,
        make_file([]),
        make_file({"__metadata__": {"a": 1}}),
        state(shape=(2,), end=8),
        state(begin=4, end=0),
        state(dtype="O"),
        state(shape=(-1,)),
    ],
)
def test_damaged_files_are_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    file.write_bytes(content)
    with pytest.raises(UserError, match="not a safetensors file, or damaged"):
        read_safetensors(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="gone"):
        read_safetensors(tmp_path / "gone.safetensors")


def test_a_halved_file_is_smaller_and_reads_as_float32(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    write_safetensors(file, {**TENSORS, "many": torch.linspace(-1, 1, 4096)}, {"about": "{}"})
    size = file.stat().st_size
    halve_file(file)
    arrays, metadata = read_safetensors(file)
    assert file.stat().st_size < 0.6 * size
    assert metadata == {"about": "{}"}
    assert arrays["one"].dtype.name == "int64"
    assert arrays["many"].dtype.name == "float32"
    assert abs(arrays["many"] - torch.linspace(-1, 1, 4096).numpy()).max() < 1e-3
