"""Saving of models as OpenVINO's files, without compression."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from placement_gym.files import FileError, replace_file

if TYPE_CHECKING:
    import openvino as ov


def save_model(model: ov.Model, path: Path) -> None:
    """Replace ``path``, an ``.xml``, and the weights beside it, as a whole or not at all.

    Raises:
        FileError: They cannot be written; the files that were there are unchanged.
    """
    with replace_file(path.with_suffix(".bin")) as weights, replace_file(path) as new:
        written = new.with_suffix(".bin")
        try:
            write_model(model, new, name=str(path))
            written.rename(weights)
        finally:
            written.unlink(missing_ok=True)


def write_model(model: ov.Model, path: Path, name: str = "") -> None:
    """Write ``path``, an ``.xml``, and the weights beside it.

    Args:
        model: The model.
        path: The file.
        name: What an error calls it.

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
