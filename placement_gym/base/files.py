"""Files: reading within bounds, atomic replacement, and safe names."""

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
"""Folder of this package and of ``agents``."""
MAX_NEIGHBOURS = 1000
CHUNK_BYTES = 2**20
"""Bytes of one read, for which Python reserves memory."""
MAX_NAME_BYTES = 150
"""Maximum bytes of a name; file systems allow 255, with suffixes."""
UNSAFE = re.compile(r"[^\w.-]+")


class FileError(UserError, OSError):
    """A file cannot be read or written; the message has its name and the reason."""


@contextmanager
def explain_write_errors(path: str | Path) -> Iterator[None]:
    """Raise ``FileError`` for errors of the system in a block that writes a file."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {explain_error(error)}") from error


def explain_error(error: BaseException) -> str:
    """Return the reason of an error without the file's name."""
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def replace_file(path: str | Path, follow: bool = False) -> Iterator[Path]:
    """Yield the path of a new file, which replaces ``path`` when the block ends without an error.

    The new file has the same folder and suffix. It is on the disk before it replaces the old one:
    a full disk or a kill leaves the old one whole.

    Args:
        path: The file to replace.
        follow: Replace the target of a link, not the link: only for paths that the user named, as a
            folder of results may hold links of strangers.

    Raises:
        FileError: The file cannot be written.
    """
    target = Path(path)
    with explain_write_errors(path):
        if follow or not target.is_symlink():
            if target.exists() and not target.is_file():  # a pipe or a terminal
                yield target
                return
            target = Path(os.path.realpath(target))  # resolve() fails on circular links
        temporary = target.with_name(f".new-{secrets.token_hex(6)}{target.suffix}")
        try:
            yield temporary
            put_on_disk(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


def put_on_disk(temporary: Path, target: Path) -> None:
    """Replace a file after the new one is on the disk; keep its mode."""
    if target.is_file() and not target.is_symlink():
        temporary.chmod(target.stat().st_mode)
    _sync(temporary)
    temporary.replace(target)
    _sync(target.parent)


def write_bytes(path: str | Path, content: bytes, follow: bool = False) -> None:
    """Write a file, see ``replace_file``."""
    with replace_file(path, follow) as temporary:
        temporary.write_bytes(content)


def write_text(path: str | Path, text: str, follow: bool = False) -> None:
    """Write a text file in UTF-8, see ``replace_file``."""
    write_bytes(path, text.encode(), follow)


def _sync(path: Path) -> None:
    """Flush a file or folder to the disk, if its file system can."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):
            raise
    finally:
        os.close(descriptor)


def is_path(text: object) -> bool:
    """Return whether text is an existing path; False if it cannot be one."""
    return os.path.exists(str(text))  # noqa: PTH110  Path raises where a name is too long


def is_file(text: object) -> bool:
    return os.path.isfile(str(text))  # noqa: PTH113


def is_folder(text: object) -> bool:
    return os.path.isdir(str(text))  # noqa: PTH112


def list_neighbours(path: str) -> list[str]:
    """List the files in the folder of a path, to suggest one."""
    folder = Path(path).parent
    with suppress(OSError, ValueError):
        return [str(file) for file in islice(folder.iterdir(), MAX_NEIGHBOURS) if file.is_file()]
    return []


def read_bytes(path: str | Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes, or raise ``FileError``."""
    file = Path(path)
    try:
        if is_path(file) and not is_file(file):
            raise FileError(f"cannot read {str(path)!r}: it is not a file")
        with file.open("rb") as opened:
            content = read_pieces(opened, limit + 1)
    except FileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        is_missing = isinstance(error, FileNotFoundError)
        near = suggest(path, list_neighbours(str(path))) if is_missing else ""
        raise FileError(f"cannot read {str(path)!r}: {explain_error(error)}{near}") from error
    if len(content) > limit:
        raise FileError(f"cannot read {str(path)!r}: it has more than {limit} bytes")
    return content


def read_pieces(file: IO[bytes], limit: int) -> bytes:
    """Read at most ``limit`` bytes, with memory for the file's size only."""
    content = BytesIO()
    while piece := file.read(min(CHUNK_BYTES, limit - content.tell())):
        content.write(piece)
    return content.getvalue()


def safe_name(text: str) -> str:
    """Make a file name of letters, digits, ``_``, ``.`` and ``-``; a long one ends with a hash."""
    name = UNSAFE.sub("-", text).lstrip(".-") or "unnamed"
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name.encode()[:MAX_NAME_BYTES].decode(errors='ignore')}-{digest}"


@contextmanager
def make_temporary_folder() -> Iterator[Path]:
    """Yield a folder that is removed when the block ends, or raise ``FileError``."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="placement_gym-", ignore_cleanup_errors=True)
    except OSError as error:
        raise FileError(
            f"cannot make a temporary folder: {error}; TMPDIR may name another place"
        ) from error
    with folder as path:
        yield Path(path)
