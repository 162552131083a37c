"""Save models as OpenVINO's files without compression, and pickle models as such files."""

from __future__ import annotations

import copyreg
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_gym.base import FileError, make_temporary_folder, replace_file

if TYPE_CHECKING:
    import openvino as ov


def save_model(model: ov.Model, path: Path) -> None:
    """Replace ``path``, an ``.xml``, and its weights; on errors, replace neither.

    Raises:
        FileError: They cannot be written; existing files are unchanged.
    """
    with replace_file(path.with_suffix(".bin")) as weights, replace_file(path) as model_file:
        written = model_file.with_suffix(".bin")
        try:
            write_model(model, model_file, name=str(path))
            written.rename(weights)
        finally:
            written.unlink(missing_ok=True)


def write_model(model: ov.Model, path: Path, name: str = "") -> None:
    """Write ``path``, an ``.xml``, and its weights; errors name the model ``name``.

    Raises:
        FileError: They cannot be written completely.
    """
    import openvino as ov

    try:
        ov.save_model(model, path, compress_to_fp16=False)
    except RuntimeError as error:  # it has no reason
        raise FileError(
            f"cannot write {name or str(path)!r}: its disk is full or read-only ({error})"
        ) from error


def make_models_picklable() -> None:
    """Register ``ov.Model`` with ``pickle``, for environments of a model in memory."""
    import openvino as ov

    copyreg.pickle(ov.Model, reduce_model)


def reduce_model(model: ov.Model) -> tuple[Any, tuple[bytes, bytes]]:
    """Reduce a model for ``pickle`` to the bytes of OpenVINO's files.

    Raises:
        FileError: They cannot be written to a temporary folder.
    """
    with make_temporary_folder() as folder:
        path = folder / "model.xml"
        write_model(model, path)
        return read_model, (path.read_bytes(), path.with_suffix(".bin").read_bytes())


def read_model(network: bytes, weights: bytes) -> ov.Model:
    """Read a model from the bytes of OpenVINO's files. Pickled models name this function."""
    import openvino as ov

    make_models_picklable()
    return ov.Core().read_model(network, weights)
