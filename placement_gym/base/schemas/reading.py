"""Foreign contents as plain values: within bounds, and with errors that say where and what."""

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
"""Bytes of memory, in one number and in a sum: half of int64."""
MAX_SHOWN_ERRORS = 3
"""Errors that a message lists. Hand-tuned."""
MAX_SHOWN_LETTERS = 60
"""Letters of a wrong value in a message. Hand-tuned."""

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
"""Kind -> keys that files of no other kind have together."""
RULES = frozenset(("keep_on", "keep_off", "max_submodels"))
"""Keys of a file of constraints, of which one is enough."""

Name = Annotated[str, Field(max_length=65_536)]
Schema = TypeVar("Schema", bound=BaseModel)
Parsed = TypeVar("Parsed")


class Fields(BaseModel):
    """The base of all schemas: no conversions between types, and keys of later versions ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", protected_namespaces=())


class FileFields(Fields):
    """The base of schemas of files that state their format."""

    @classmethod
    def read(cls, values: Any, expected_format: int) -> Self:
        """Values as an object.

        Raises:
            UserError: It has another format than this version reads, or a field is wrong.
        """
        if not isinstance(values, Mapping) or "format" not in values:
            raise UserError("it needs an object with the key 'format'")
        number = values["format"]
        if isinstance(number, bool) or number != expected_format:
            raise UserError(
                f"its format is {shorten(number)}, this version reads {expected_format}"
            )
        return check(cls, values)


def load_json(path: str | Path, megabytes: int = 256) -> Any:
    """Read a JSON file as plain values.

    Raises:
        FileError: It cannot be read, or is too large.
        UserError: It is not valid JSON; the message has the line.
    """
    return parse_json(read_bytes(path, megabytes * MEGABYTE))


def load_valid(
    path: str | Path, parse: Callable[[Any], Parsed], kind: str, megabytes: int = 256
) -> Parsed:
    """Read a JSON file and parse it.

    Args:
        path: The file.
        parse: Makes an object of its plain values.
        kind: What the file should be, for the message, as in ``"a placement file"``.
        megabytes: Largest size.

    Raises:
        FileError: It cannot be read, or is too large.
        UserError: It is not valid JSON, or ``parse`` refuses it; the message names the file.
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
    """Plain values from JSON without NaN and infinite numbers, nested at most 200 deep.

    Raises:
        UserError: It is not valid JSON; the message has the line.
    """
    raw = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    try:
        return from_json(raw.removeprefix(BOM_UTF8), allow_inf_nan=False)
    except ValueError as error:
        raise UserError(f"invalid JSON, {error}") from error


def check(schema: type[Schema], values: Any) -> Schema:
    """Values as a schema's object.

    Raises:
        UserError: A field is missing or wrong; the message names the first few.
    """
    if not isinstance(values, Mapping):
        raise UserError(f"it needs an object with the keys {required_keys(schema)}")
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)
        lines = [describe(detail, schema) for detail in details[:MAX_SHOWN_ERRORS]]
        more = (
            f" and {len(details) - MAX_SHOWN_ERRORS} more"
            if len(details) > MAX_SHOWN_ERRORS
            else ""
        )
        raise UserError("; ".join(lines) + more) from error
    except UnicodeEncodeError as error:
        # Pydantic cannot keep the message of a check that quotes half of a surrogate pair.
        raise UserError(f"text that is not valid Unicode, {shorten(error.object)}") from error


def required_keys(schema: type[BaseModel]) -> list[str]:
    """The keys that have no default."""
    fields = schema.model_fields.items()
    return [field.alias or name for name, field in fields if field.is_required()]


def describe(error: ErrorDetails, schema: type[BaseModel]) -> str:
    """One error with the field that it is in."""
    field = name_field(error["loc"])
    if error["type"] == "missing":
        return f"{field} is missing"
    if error["type"] == "extra_forbidden":
        keys = [entry.alias or name for name, entry in schema.model_fields.items()]
        nearest = suggest(error["loc"][-1], keys) if len(error["loc"]) == 1 else ""
        return f"{field} is not known among {sorted(keys)}{nearest}"
    if error["type"] == "value_error":  # of a check of our own
        return f"{field}: {error['ctx']['error']}" if error["loc"] else str(error["ctx"]["error"])
    message = error["msg"].partition("should ")[2] or error["msg"]
    return f"{field} must {message}, not {shorten(error['input'])}"


def name_field(path: tuple[int | str, ...]) -> str:
    """``'nodes'[3].'size'`` as a reader finds it in the file."""
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{part:.{MAX_SHOWN_LETTERS}}" for part in path
    )
    return repr("".join(parts).removeprefix("."))


def shorten(value: Any) -> str:
    """The beginning of a value, without writing all of it."""
    if isinstance(value, (Mapping, list, tuple)) and value:
        return f"{type(value).__name__} of {len(value)}"
    text = repr(value[: MAX_SHOWN_LETTERS + 1] if isinstance(value, str) else value)
    return text if len(text) <= MAX_SHOWN_LETTERS else f"{text[:MAX_SHOWN_LETTERS]}..."


def check_plain(value: Any) -> Any:
    """Return a value that JSON can hold.

    Raises:
        ValueError: It cannot; for schemas.
    """
    try:
        json.dumps(value, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"JSON cannot hold it: {error}") from error
    return value


def find_kind(values: Any) -> str:
    """The kind that contents of a file are of; empty if they are of none."""
    if isinstance(values, list):
        named = values and all(isinstance(one, str | Mapping) for one in values)
        return "list of devices" if named else ""
    keys = values.keys() if isinstance(values, Mapping) else set[str]()
    found = [kind for kind, needed in KEYS.items() if needed <= keys]
    return found[0] if found else "file of constraints" if RULES & keys else ""


def refuse_file(path: str | Path, kind: str, values: Any, error: UserError) -> UserError:
    """The error for a file whose contents were refused.

    Args:
        path: The file.
        kind: What it should be, as in ``"a placement file"``.
        values: Its contents; None if they could not be parsed.
        error: Why they were refused, which is said unless they are of another kind.
    """
    found = find_kind(values)
    reason = f"it is a {found}" if found and found not in kind else error
    return UserError(f"{path} is not {kind}: {reason}")
