"""Files: read within bounds, replaced as a whole or not at all, and named safely."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO

from placement_gym.base.errors import UserError, suggest

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
            put_on_disk(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


def put_on_disk(temporary: Path, target: Path) -> None:
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


def safe_name(text: str) -> str:
    """A file name without folders from a model's name or a label.

    Letters, digits, ``_``, ``.`` and ``-`` stay; long names end with some digits of a hash.
    """
    name = UNSAFE.sub("-", text).lstrip(".-") or "unnamed"
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name.encode()[:MAX_NAME_BYTES].decode(errors='ignore')}-{digest}"


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
