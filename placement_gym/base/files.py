"""Files: read within bounds, replaced as a whole or not at all, and named safely."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Any

from placement_gym.base.errors import UserError, suggest, warn_user

IMPORT_ROOT = Path(__file__).resolve().parents[2]
"""The folder that this package and ``agents`` are imported from."""
MAX_NEIGHBOURS = 1000
CHUNK_BYTES = 2**20
"""Bytes of one read: Python reserves memory for the whole size that it is asked to read."""
MAX_NAME_BYTES = 150
"""Bytes of a file name that are taken from a model or a label: file systems allow 255 in all."""
UNSAFE = re.compile(r"[^\w.-]+")


class FileError(UserError, OSError):
    """A file cannot be read or written; the message names it and says why."""


@contextmanager
def explain_write_errors(path: str | Path) -> Iterator[None]:
    """Turn an error of the system within a block that writes a file into one for the user.

    Raises:
        FileError: It cannot be written; the message says why.
    """
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {explain_error(error)}") from error


def explain_error(error: BaseException) -> str:
    """The reason alone, of an error that also names a file."""
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def replace_file(path: str | Path, follow: bool = False) -> Iterator[Path]:
    """Yield the path of a new file, which replaces ``path`` when the block ends without an error.

    For libraries that write to a path; the new file has the same folder and suffix. It is on the
    disk before it replaces the old one: a full disk or a kill leaves the old file whole.

    Args:
        path: The file.
        follow: Whether a link stays a link and its target is replaced: for paths that the user
            named. In a folder that may be a stranger's, a link is replaced itself.

    Raises:
        FileError: It cannot be written; the message says why.
    """
    target = Path(path)
    with explain_write_errors(path):
        if follow or not target.is_symlink():
            if target.exists() and not target.is_file():  # a pipe or a terminal
                yield target
                return
            target = Path(os.path.realpath(target))  # resolve() fails on a circle of links
        temporary = target.with_name(f".new-{secrets.token_hex(6)}{target.suffix}")
        try:
            yield temporary
            _put(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


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
                _put(file, folder / file.name)
        except FileError as error:
            raise FileError(str(error).replace(str(staged), str(folder))) from error
        finally:
            shutil.rmtree(staged, ignore_errors=True)


def _put(temporary: Path, target: Path) -> None:
    """Replace a file by one that is on the disk first."""
    if target.is_file() and not target.is_symlink():
        temporary.chmod(target.stat().st_mode)
    _sync(temporary)
    temporary.replace(target)
    _sync(target.parent)


def write_bytes(path: str | Path, content: bytes, follow: bool = False) -> None:
    """Write a file, or leave the one that is there; see ``replace_file``."""
    with replace_file(path, follow) as temporary:
        temporary.write_bytes(content)


def write_text(path: str | Path, text: str, follow: bool = False) -> None:
    """Write a text file in UTF-8, or leave the one that is there; see ``replace_file``."""
    write_bytes(path, text.encode(), follow)


def _sync(path: Path) -> None:
    """Have the system write a file or a folder to the disk, where its file system can."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):
            raise
    finally:
        os.close(descriptor)


def is_path(text: object) -> bool:
    """Return whether text names something that exists; False for text that cannot be a name."""
    return os.path.exists(str(text))  # noqa: PTH110  Path raises where a name is too long


def is_file(text: object) -> bool:
    """As ``is_path``, of a regular file."""
    return os.path.isfile(str(text))  # noqa: PTH113


def is_folder(text: object) -> bool:
    """As ``is_path``, of a folder."""
    return os.path.isdir(str(text))  # noqa: PTH112


def list_neighbours(path: str) -> list[str]:
    """Files in the folder of a path, as the path would name them."""
    folder = Path(path).parent
    with suppress(OSError, ValueError):
        return [str(file) for file in islice(folder.iterdir(), MAX_NEIGHBOURS) if file.is_file()]
    return []


def read_bytes(path: str | Path, limit: int) -> bytes:
    """Read a file of at most ``limit`` bytes.

    Raises:
        FileError: It cannot be read, is not a regular file, or is larger; the message says why.
    """
    file = Path(path)
    try:
        if is_path(file) and not is_file(file):
            raise FileError(f"cannot read {str(path)!r}: it is not a file")
        with file.open("rb") as opened:
            content = read_pieces(opened, limit + 1)
    except FileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = explain_error(error)
        is_missing = isinstance(error, FileNotFoundError)
        near = suggest(path, list_neighbours(str(path))) if is_missing else ""
        raise FileError(f"cannot read {str(path)!r}: {reason}{near}") from error
    if len(content) > limit:
        raise FileError(f"cannot read {str(path)!r}: it has more than {limit} bytes")
    return content


def read_pieces(file: IO[bytes], limit: int) -> bytes:
    """Read at most ``limit`` bytes, with memory for no more than the file has."""
    content = BytesIO()
    while piece := file.read(min(CHUNK_BYTES, limit - content.tell())):
        content.write(piece)
    return content.getvalue()


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


def safe_name(text: str) -> str:
    """A file name without folders from a model's name or a label.

    Letters, digits, ``_``, ``.`` and ``-`` stay; long names end with some digits of a hash.
    """
    name = UNSAFE.sub("-", text).lstrip(".-") or "unnamed"
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name.encode()[:MAX_NAME_BYTES].decode(errors='ignore')}-{digest}"


def compute_checksum(values: dict[str, Any]) -> str:
    """Sixteen hex digits of the contents of a JSON file, its ``checksum`` left out."""
    contents = {key: value for key, value in values.items() if key != "checksum"}
    text = json.dumps(contents, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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


@contextmanager
def make_temporary_folder() -> Iterator[Path]:
    """A folder that is removed when the block ends.

    Raises:
        FileError: It cannot be made; the message says what to do.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="placement_gym-", ignore_cleanup_errors=True)
    except OSError as error:
        raise FileError(
            f"cannot make a temporary folder: {error}; TMPDIR may name another place"
        ) from error
    with folder as path:
        yield Path(path)


def name_output_file(out: str | Path, name: str) -> Path:
    """The file that ``--out`` means: a path with a suffix, or ``name`` in the folder that it is."""
    path = Path(out)
    return path if path.suffix and not is_folder(path) else path / name


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
