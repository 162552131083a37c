"""Parsing and checking of files, with errors that name the field."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, from_json

from placement_gym.base import FileError, UserError, read_bytes, suggest

MEGABYTE = 2**20
MAX_BYTES = 2**62
"""Maximum bytes of memory, also in sum: half of the range of int64."""
MAX_SHOWN_ERRORS = 3
"""Maximum number of errors in a message. Hand-tuned."""
MAX_SHOWN_LETTERS = 60
"""Maximum letters of a value in a message. Hand-tuned."""

KEYS: Mapping[str, frozenset[str]] = {
    "placement file": frozenset(("units", "members")),
    "cost table": frozenset(("operator_ms", "transfer_size")),
    "cost graph": frozenset(("ms", "edge_bytes")),
    "dnn-partitioning workload": frozenset(("maxFPGAs", "nodes")),
    "file of plans": frozenset(("models", "plans")),
    "plan's report": frozenset(("plan", "verdict", "rows")),
    "comparison": frozenset(("env", "verdict", "rows")),
    "study file": frozenset(("env", "models", "agents")),
    "list policy": frozenset(("shift", "hidden", "output")),
}
"""Kind of file -> keys that identify it."""
RULES = frozenset(("keep_on", "keep_off", "max_submodels"))
"""Keys of which any identifies a file of constraints."""

Name = Annotated[str, Field(max_length=65_536)]
Schema = TypeVar("Schema", bound=BaseModel)
Parsed = TypeVar("Parsed")


class Fields(BaseModel):
    """Base class of schemas: types are strict, unknown keys, as of later versions, are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", protected_namespaces=())


class FileFields(Fields):
    """Base class of schemas of files that state their format."""

    @classmethod
    def read(cls, values: Any, expected_format: int) -> Self:
        """Check a file's format and fields, or raise ``UserError``."""
        if not isinstance(values, Mapping) or "format" not in values:
            raise UserError("it needs an object with the key 'format'")
        number = values["format"]
        if isinstance(number, bool) or number != expected_format:
            raise UserError(
                f"its format is {shorten(number)}, this version reads {expected_format}"
            )
        return check(cls, values)


def load_json(path: str | Path, megabytes: int = 256) -> Any:
    """Read a JSON file as plain values, or raise ``FileError`` or ``UserError``."""
    return parse_json(read_bytes(path, megabytes * MEGABYTE))


def load_valid(
    path: str | Path, parse: Callable[[Any], Parsed], kind: str, megabytes: int = 256
) -> Parsed:
    """Read a JSON file and ``parse`` its values.

    The error for invalid contents names the file and its ``kind``, as in ``"a placement file"``.
    """
    values = None
    try:
        values = load_json(path, megabytes)
        return parse(values)
    except FileError:
        raise
    except UserError as error:
        raise refuse_file(path, kind, values, error) from error


def parse_json(content: bytes | str) -> Any:
    """Parse JSON without NaN and infinities, or raise ``UserError`` with the line."""
    raw = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    try:
        return from_json(raw.removeprefix(BOM_UTF8), allow_inf_nan=False)
    except ValueError as error:
        raise UserError(f"invalid JSON, {error}") from error


def check(schema: type[Schema], values: Any) -> Schema:
    """Check values by a schema, or raise ``UserError`` with the first wrong fields."""
    if not isinstance(values, Mapping):
        keys = required_keys(schema) or [*schema.model_fields]
        raise UserError(f"it needs an object with the keys {keys}")
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)
        text = "; ".join(describe(detail, schema) for detail in details[:MAX_SHOWN_ERRORS])
        n_more = len(details) - MAX_SHOWN_ERRORS
        raise UserError(f"{text} and {n_more} more" if n_more > 0 else text) from error
    except UnicodeEncodeError as error:
        # Pydantic cannot keep a message that quotes half of a surrogate pair.
        raise UserError(f"text that is not valid Unicode, {shorten(error.object)}") from error


def required_keys(schema: type[BaseModel]) -> list[str]:
    fields = schema.model_fields.items()
    return [field.alias or name for name, field in fields if field.is_required()]


def describe(error: ErrorDetails, schema: type[BaseModel]) -> str:
    field = name_field(error["loc"])
    if error["type"] == "missing":
        return f"{field} is missing"
    if error["type"] == "extra_forbidden":
        keys = [entry.alias or name for name, entry in schema.model_fields.items()]
        nearest = suggest(error["loc"][-1], keys) if len(error["loc"]) == 1 else ""
        return f"{field} is not known among {sorted(keys)}{nearest}"
    if error["type"] == "value_error":  # raised by a check of the schema
        return f"{field}: {error['ctx']['error']}" if error["loc"] else str(error["ctx"]["error"])
    message = error["msg"].partition("should ")[2] or error["msg"]
    return f"{field} must {message}, not {shorten(error['input'])}"


def name_field(path: tuple[int | str, ...]) -> str:
    """Name a field by its path, as in ``'nodes[3].size'``."""
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{part:.{MAX_SHOWN_LETTERS}}" for part in path
    )
    return repr("".join(parts).removeprefix("."))


def shorten(value: Any) -> str:
    """Return the beginning of a value, or its length."""
    if isinstance(value, (Mapping, list, tuple)) and value:
        return f"{type(value).__name__} of {len(value)}"
    text = repr(value[: MAX_SHOWN_LETTERS + 1] if isinstance(value, str) else value)
    return text if len(text) <= MAX_SHOWN_LETTERS else f"{text[:MAX_SHOWN_LETTERS]}..."


def check_plain(value: Any) -> Any:
    """Return a value if JSON can hold it; else raise ``ValueError``, for schemas."""
    try:
        json.dumps(value, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"JSON cannot hold it: {error}") from error
    return value


def find_kind(values: Any) -> str:
    """Find the kind of a file's contents; empty if unknown."""
    if isinstance(values, list):
        named = values and all(isinstance(one, str | Mapping) for one in values)
        return "list of devices" if named else ""
    keys = values.keys() if isinstance(values, Mapping) else set[str]()
    found = [kind for kind, needed in KEYS.items() if needed <= keys]
    return found[0] if found else "file of constraints" if RULES & keys else ""


def refuse_file(path: str | Path, kind: str, values: Any, error: UserError) -> UserError:
    """Make the error for a file that is not of a ``kind``, as in ``"a placement file"``.

    If its ``values`` are of another known kind, the message names that instead of ``error``.
    """
    found = find_kind(values)
    reason = f"it is a {found}" if found and found not in kind else error
    return UserError(f"{path} is not {kind}: {reason}")
