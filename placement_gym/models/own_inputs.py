"""Reading of the user's inputs from files or memory."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import UserError, is_path, join_words, replace_file
from placement_gym.models.input_reader import InputReader
from placement_gym.models.shapes import InputsArgument, Sample, Sizes
from placement_gym.models.tensors import is_whole, read_values

if TYPE_CHECKING:
    import openvino as ov


def read_samples(
    model: ov.Model, given: InputsArgument, complete: bool
) -> tuple[list[Sample], Sizes, list[Sizes], str]:
    """Read the fields of ``OwnInputs``: samples, their sizes and fingerprint."""
    reader = InputReader(model)
    mappings = [one for mapping in list_mappings(given) for one in separate(reader, mapping)]
    samples = [read_sample(reader, mapping, complete) for mapping in mappings]
    found = [list_sizes(reader, sample) for sample in samples]
    sizes, *others = [one for number, one in enumerate(found) if one not in found[:number]]
    return samples, sizes, others, compute_fingerprint(reader, samples)


def list_sizes(reader: InputReader, sample: Sample) -> Sizes:
    return {
        reader.names[index][0]: value.shape
        for index, value in sample.items()
        if reader.shapes[index].is_dynamic
    }


def list_mappings(given: InputsArgument) -> list[Mapping[str, Any]]:
    """List the arrays of each sample, or of all samples together, by name."""
    if isinstance(given, Mapping):
        return [given]
    if isinstance(given, (str, Path)):
        return load_mappings(Path(given))
    mappings: list[Any] = list(given) if isinstance(given, Sequence) else []
    if not mappings or not all(isinstance(mapping, Mapping) for mapping in mappings):
        raise UserError(
            "inputs are a file of named arrays, as in 'inputs.npz', a mapping of names to arrays, "
            f"or a list of such mappings, the samples, not {given!r:.200}"
        )
    return mappings


def load_mappings(path: Path) -> list[Mapping[str, Any]]:
    """Load the arrays of a file or folder; see ``InputsArgument``."""
    if not is_path(path):
        raise UserError(f"no inputs {str(path)!r:.200}: name an .npz, or a folder of .npy or .npz")
    if not path.is_dir():
        return [load_arrays(path)]
    if files := sorted(path.glob("*.npz")):
        return [load_arrays(file) for file in files]
    arrays: dict[str, Any] = {}
    for file in sorted(path.rglob("*.npy")):
        arrays |= load_arrays(file, str(file.relative_to(path).with_suffix("")))
    if not arrays:
        raise UserError(f"{str(path)!r:.200} has no .npy and no .npz: save an array for each input")
    return [arrays]


def load_arrays(path: Path, name: str = "") -> dict[str, Any]:
    """Load the arrays of an ``.npz``, or an ``.npy`` as ``name``."""
    try:
        arrays = np.load(path, allow_pickle=False)
        if not isinstance(arrays, np.ndarray):
            with arrays:
                return dict(arrays)
        if not name:
            raise ValueError("it has one array without a name")
        return {name: arrays}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(
            f"cannot read inputs from {str(path)!r:.200}: {error}. Save numbers or strings by "
            "numpy.savez(FILE, name=array)"
        ) from error


def separate(reader: InputReader, mapping: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Separate the samples of arrays, some of which have a first axis of samples."""
    arrays = {name: as_array(value) for name, value in mapping.items() if name in reader.index}
    counts = {
        name: len(array) for name, array in arrays.items() if has_samples(reader, name, array)
    }
    if not counts:
        return [mapping]
    if len({*counts.values()}) > 1 or not all(counts.values()):
        raise UserError(
            f"inputs have {join_words([f'{n} samples of {name!r}' for name, n in counts.items()])}:"
            " give the same number of samples of each, or one for all"
        )
    n_samples = next(iter(counts.values()))
    return [
        {name: arrays[name][number] if name in counts else value for name, value in mapping.items()}
        for number in range(n_samples)
    ]


def has_samples(reader: InputReader, name: str, array: NDArray[Any]) -> bool:
    """Return whether an array has one more dimension than its input: an axis of samples."""
    rank = reader.shapes[reader.index[name]].rank
    return bool(rank.is_static and array.ndim == rank.get_length() + 1)


def read_sample(reader: InputReader, mapping: Mapping[str, Any], complete: bool) -> Sample:
    sample: dict[int, NDArray[Any]] = {}
    faults: list[str] = []
    named: set[int] = set()
    for name, value in mapping.items():
        try:
            index = reader.find(name)
            named.add(index)  # not missing, even if it does not fit
            sample[index] = as_array(reader.convert(index, value))
        except UserError as error:
            faults.append(str(error))
    missing = [reader.describe(i) for i in range(len(reader.names)) if i not in named]
    if missing and complete:
        faults.append(f"{join_words(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    if faults:
        raise UserError(f"inputs do not fit the model: {'; '.join(faults)}. {reader.explain()}")
    return dict(sorted(sample.items()))


def compute_fingerprint(reader: InputReader, samples: Sequence[Sample]) -> str:
    digest = hashlib.sha256()
    for sample in samples:
        for index, array in sample.items():
            head = (reader.describe(index), str(reader.types[index]), array.shape)
            digest.update(repr(head).encode() + array.tobytes())
    return digest.hexdigest()[:16]


def save_inputs(given: InputsArgument, path: Path) -> Path:
    """Write inputs to a folder, instead of its old ones."""
    path.mkdir(parents=True, exist_ok=True)
    for old in path.glob("*.npz"):
        old.unlink()
    for number, mapping in enumerate(list_mappings(given)):
        save_arrays(mapping, path / f"{number:06}.npz")
    return path


def save_arrays(mapping: Mapping[str, Any], path: Path) -> Path:
    """Write arrays to an ``.npz``, as numbers if NumPy lacks their type."""
    # An input may be called `file`, which is a keyword of numpy.savez.
    with replace_file(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, value in mapping.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, as_array(value), allow_pickle=False)
    return path


def as_array(value: Any) -> NDArray[Any]:
    """Convert an array or tensor to an array that NumPy can save."""
    import openvino as ov

    if not isinstance(value, ov.Tensor):
        array = np.asarray(value)
        return array if array.dtype != object else array.astype(np.str_)
    values = read_values(value)
    return values.astype(np.int64) if is_whole(value.element_type) else values
