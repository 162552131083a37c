"""Saving of models as OpenVINO's files, without compression, and pickling by way of them."""

from __future__ import annotations

import copyreg
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_gym.base import FileError, make_temporary_folder, replace_file

if TYPE_CHECKING:
    import openvino as ov


def save_model(model: ov.Model, path: Path) -> None:
    """Replace ``path``, an ``.xml``, and the weights next to it, as a whole or not at all.

    Raises:
        FileError: They cannot be written; the files that were there are unchanged.
    """
    with replace_file(path.with_suffix(".bin")) as weights, replace_file(path) as model_file:
        written = model_file.with_suffix(".bin")
        try:
            write_model(model, model_file, name=str(path))
            written.rename(weights)
        finally:
            written.unlink(missing_ok=True)


def write_model(model: ov.Model, path: Path, name: str = "") -> None:
    """Write ``path``, an ``.xml``, and its weights; an error calls the model ``name``.

    Raises:
        FileError: They cannot be written; a part may have been.
    """
    import openvino as ov

    try:
        ov.save_model(model, path, compress_to_fp16=False)
    except RuntimeError as error:  # which does not say why
        raise FileError(
            f"cannot write {name or str(path)!r}: its disk is full or read-only ({error})"
        ) from error


def make_models_picklable() -> None:
    """Register ``ov.Model`` with ``pickle``, for environments of a model in memory."""
    import openvino as ov

    copyreg.pickle(ov.Model, reduce_model)


def reduce_model(model: ov.Model) -> tuple[Any, tuple[bytes, bytes]]:
    """A model as ``pickle`` writes it: OpenVINO's files, as bytes.

    Raises:
        FileError: They cannot be written to a temporary folder.
    """
    with make_temporary_folder() as folder:
        path = folder / "model.xml"
        write_model(model, path)
        return read_model, (path.read_bytes(), path.with_suffix(".bin").read_bytes())


def read_model(network: bytes, weights: bytes) -> ov.Model:
    """The model of OpenVINO's files, as bytes. Pickled models name this function."""
    import openvino as ov

    make_models_picklable()
    return ov.Core().read_model(network, weights)
