"""JSON files: objects that are kept as such, and plain values, which JSON can hold."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from placement_gym.base.files import write_text


def to_plain(value: Any) -> Any:
    """Convert a value to what JSON can hold.

    Tuples become lists, NaN and infinite numbers None, and bytes that are not UTF-8 escapes.
    """
    if isinstance(value, Mapping):
        return {to_plain(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: str | Path, values: Any, follow: bool = False, indent: int | None = 1) -> None:
    """Write plain values as a JSON file, or leave the one that is there; see ``replace_file``."""
    write_text(path, json.dumps(values, indent=indent) + "\n", follow)


def compute_checksum(values: dict[str, Any]) -> str:
    """Sixteen hex digits of the contents of a JSON file, its ``checksum`` left out."""
    contents = {key: value for key, value in values.items() if key != "checksum"}
    text = json.dumps(contents, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class JsonFile(ABC):
    """The base of what users save and load.

    Attributes:
        kind: What its file is, for messages, as in ``"a placement file"``.
        max_megabytes: Largest size of a file.
        indent: Of the file's lines; None writes a single line.
    """

    kind: ClassVar[str]
    max_megabytes: ClassVar[int] = 256
    indent: ClassVar[int | None] = None

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The contents of the file."""

    @classmethod
    @abstractmethod
    def from_json(cls, values: Any) -> Self:
        """The inverse of ``to_json``.

        Raises:
            UserError: The contents are not valid; the message names the field.
        """

    def save(self, path: str | Path, follow: bool = True) -> None:
        """Write a JSON file.

        Args:
            path: The file.
            follow: Whether a link stays a link and its target is replaced.

        Raises:
            FileError: It cannot be written; the file that was there is unchanged.
        """
        write_json(path, self.to_json(), follow, self.indent)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that ``save`` wrote.

        Raises:
            FileError: The file cannot be read.
            UserError: It is of another kind or format; the message names the field.
        """
        from placement_gym.base.schemas import load_valid

        return load_valid(path, cls.from_json, cls.kind, cls.max_megabytes)
