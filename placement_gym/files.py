"""Folders and files for results."""

from __future__ import annotations

import tempfile
from pathlib import Path

from placement_gym.errors import UserError

IMPORT_ROOT = Path(__file__).resolve().parent.parent
"""The folder that this package and ``agents`` are imported from."""


def make_output_folder(path: str | Path) -> Path:
    """Create a folder for results and make sure that files can be written into it.

    Raises:
        UserError: It cannot be created or written; the message says why.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"cannot write results into {str(folder)!r}: {error}") from error
    return folder


def check_output_file(path: str | Path) -> Path:
    """As ``make_output_folder``, for the folder of a single file.

    Raises:
        UserError: The file cannot be written; the message says why.
    """
    file = Path(path)
    if file.is_dir():
        raise UserError(f"cannot write {str(file)!r}: it is a folder; name a file in it")
    make_output_folder(file.parent)
    return file
