"""Output folders and files that are proven to be writable before long work begins."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile

from placement_gym.errors import UserError


def make_output_folder(path: str | Path) -> Path:
    """Create a folder for results, unless it exists, and prove that files can be written there.

    Raises:
        UserError: The folder cannot be created or written to.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write into {folder}: {reason}; name another folder") from error
    return folder


def check_output_file(path: str | Path) -> Path:
    """As ``make_output_folder``, for the folder of a single file.

    Raises:
        UserError: The file cannot be written.
    """
    file = Path(path)
    if file.is_dir():
        raise UserError(f"cannot write {file}: it is a folder; name a file in it")
    make_output_folder(file.parent)
    return file
