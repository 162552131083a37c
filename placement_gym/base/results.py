"""Where results go: folders that can be written, and what is kept where a file cannot be."""

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
    """The file that ``--out`` means: a path with a suffix, or ``name`` in the folder that it is."""
    path = Path(out)
    return path if path.suffix and not is_folder(path) else path / name


def make_output_folder(path: str | Path) -> Path:
    """Create a folder for results and make sure that files can be written into it.

    Raises:
        FileError: It cannot be created or written; the message says why.
    """
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
    """Make sure that ``make_output_folder`` can make a folder, and leave none that is new.

    For work of minutes, which may be stopped before there is anything to write.

    Raises:
        FileError: As ``make_output_folder``.
    """
    folder = Path(path)
    new_folders = [
        new_folder for new_folder in (folder, *folder.parents) if not is_path(new_folder)
    ]
    try:
        return make_output_folder(folder)
    finally:
        for new_folder in new_folders:
            with suppress(OSError):
                new_folder.rmdir()


def check_output_file(path: str | Path) -> Path:
    """As ``check_output_folder``, for a single file and its folder.

    Raises:
        UserError: The file cannot be written; the message says why.
    """
    file = Path(path)
    if is_folder(file):
        raise UserError(f"cannot write {str(file)!r}: it is a folder; name a file in it")
    check_output_folder(file.parent)
    with explain_write_errors(file):
        file.exists()  # raises if the file's own name is invalid
    return file


@contextmanager
def replace_files(folder: Path) -> Iterator[Path]:
    """Yield a new folder, whose files move to ``folder`` when the block ends without an error.

    For files that belong together: where the disk is full, none of them is written, and those of
    an earlier time are not mixed with new ones.

    Raises:
        FileError: They cannot be written; the message says why.
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
    """Turn a file that cannot be written into a warning: results are worth more than their file.

    Args:
        what: What is lost otherwise, as in ``"the report"``.
    """
    try:
        yield
    except OSError as error:
        warn_user(f"{what} could not be kept: {error}")


@contextmanager
def keep_results(document: dict[str, Any], lost: str = "file") -> Iterator[None]:
    """Turn files that cannot be written into ``unsaved`` of the results, which took minutes.

    Args:
        document: The results.
        lost: The key under which they name the files: it is None then.
    """
    try:
        yield
    except OSError as error:
        document |= {lost: None, "unsaved": str(error)}


def set_aside(path: Path) -> Path | None:
    """Rename a damaged file: a new one can take its place, and nothing is lost.

    Returns:
        Its new path; None if it cannot be renamed.
    """
    names = (path.with_name(f"{path.name}.damaged{number or ''}") for number in range(1000))
    aside = next((free for free in names if not free.exists()), None)
    with suppress(OSError):
        if aside is not None:
            path.rename(aside)
            return aside
    return None
