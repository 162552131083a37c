"""JSON files, and objects that are saved as such."""

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
    """Convert tuples to lists, NaN and infinities to None, and bad UTF-8 to escapes."""
    if isinstance(value, Mapping):
        return {to_plain(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: str | Path, values: Any) -> None:
    """Write plain values as JSON, see ``replace_file``."""
    write_text(path, json.dumps(values, indent=1) + "\n")


def compute_checksum(values: dict[str, Any]) -> str:
    """Compute sixteen hex digits of a file's contents without its ``checksum``."""
    contents = {key: value for key, value in values.items() if key != "checksum"}
    text = json.dumps(contents, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class JsonFile(ABC):
    """Base class of objects that users save and load.

    Attributes:
        kind: Kind of file for messages, as in ``"a placement file"``.
        max_megabytes: Maximum size of a file.
        indent: Indentation of the file; None writes a single line.
    """

    kind: ClassVar[str]
    max_megabytes: ClassVar[int] = 256
    indent: ClassVar[int | None] = None

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the contents of the file."""

    @classmethod
    @abstractmethod
    def from_json(cls, values: Any) -> Self:
        """Make an object from a file's contents; a ``UserError`` names the wrong field."""

    def save(self, path: str | Path, follow: bool = True) -> None:
        """Write a JSON file; ``follow`` replaces the target of a link, not the link.

        Raises:
            FileError: It cannot be written; an existing file is unchanged.
        """
        write_text(path, json.dumps(self.to_json(), indent=self.indent) + "\n", follow)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that ``save`` wrote.

        Raises:
            FileError: The file cannot be read.
            UserError: It has another kind or format; the message names the field.
        """
        from placement_gym.base.schemas import load_valid

        return load_valid(path, cls.from_json, cls.kind, cls.max_megabytes)
