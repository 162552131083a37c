"""The package's errors: those a user can mend, and those of the engine."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PlacementGymError(Exception):
    """Any error that this package raises on purpose; its message is for the user."""


class UserError(PlacementGymError, ValueError):
    """A wrong argument, file or name; the message says what to change."""


class EngineError(PlacementGymError, RuntimeError):
    """OpenVINO, a process or the machine refused or failed; the message says what is left to do."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UserError:
    """The error for a name that is not known: it suggests the nearest one and lists all.

    Args:
        kind: What the name should be, as in ``"reward"``.
        name: What was given.
        known: The names that exist.
    """
    names = sorted(known)
    nearest = get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return UserError(f"{kind} must be one of {names}, not {name!r}{hint}")
