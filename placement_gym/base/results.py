"""Files and folders of results: checks before long work, and errors after it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from placement_gym.base.errors import UserError, warn_user
from placement_gym.base.files import (
    FileError,
    explain_error,
    explain_write_errors,
    is_folder,
    is_path,
    put_on_disk,
)


def name_output_file(out: str | Path, name: str) -> Path:
    """Return ``out`` if it has a suffix and is not a folder, else the file ``name`` in it."""
    path = Path(out)
    return path if path.suffix and not is_folder(path) else path / name


def make_output_folder(path: str | Path) -> Path:
    """Create a folder, or raise ``FileError`` if no files can be written into it."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = explain_error(error)
        if is_path(folder) and not is_folder(folder):
            reason = "it is a file; name a folder"
        raise FileError(f"cannot write results into {str(folder)!r}: {reason}") from error
    return folder


def check_output_folder(path: str | Path) -> Path:
    """Check that ``make_output_folder`` will succeed, before long work; leave no new folder."""
    folder = Path(path)
    new = [one for one in (folder, *folder.parents) if not is_path(one)]
    try:
        return make_output_folder(folder)
    finally:
        for one in new:
            with suppress(OSError):
                one.rmdir()


def check_output_file(path: str | Path) -> Path:
    """Raise ``UserError`` if a file cannot be written, before long work."""
    file = Path(path)
    if is_folder(file):
        raise UserError(f"cannot write {str(file)!r}: it is a folder; name a file in it")
    check_output_folder(file.parent)
    with explain_write_errors(file):
        file.exists()  # raises if its name is invalid
    return file


@contextmanager
def replace_files(folder: Path) -> Iterator[Path]:
    """Yield a new folder, whose files move to ``folder`` when the block ends without an error.

    If they cannot be written, none of them is, and ``FileError`` is raised.
    """
    with explain_write_errors(folder):
        staged = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
        try:
            yield staged
            for file in sorted(staged.iterdir()):
                put_on_disk(file, folder / file.name)
        except FileError as error:
            raise FileError(str(error).replace(str(staged), str(folder))) from error
        finally:
            shutil.rmtree(staged, ignore_errors=True)


@contextmanager
def keep_if_possible(what: str) -> Iterator[None]:
    """Warn if a file cannot be written; ``what`` names its contents, as in ``"the report"``."""
    try:
        yield
    except OSError as error:
        warn_user(f"{what} could not be kept: {error}")


@contextmanager
def keep_results(document: dict[str, Any], lost: str = "file") -> Iterator[None]:
    """Record in results that their files cannot be written, instead of raising the error.

    The reason becomes ``document["unsaved"]``, and ``document[lost]``, which names the files, None.
    """
    try:
        yield
    except OSError as error:
        document |= {lost: None, "unsaved": str(error)}


def set_aside(path: Path) -> Path | None:
    """Rename a damaged file and return its new path; None if it cannot be renamed."""
    names = (path.with_name(f"{path.name}.damaged{number or ''}") for number in range(1000))
    aside = next((free for free in names if not free.exists()), None)
    with suppress(OSError):
        if aside is not None:
            return path.rename(aside)
    return None
