"""Folders for results."""

from __future__ import annotations

import tempfile
from pathlib import Path

from placement_gym.errors import UserError


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
