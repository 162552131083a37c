"""Errors and warnings of the package."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from difflib import get_close_matches

from placement_gym.base.texts import make_lines_printable

MAX_LISTED_NAMES = 12
"""Maximum length of a list of names in a message. Hand-tuned."""


class PlacementGymError(Exception):
    """Base class of the package's errors; the message is for the user."""


class UserError(PlacementGymError, ValueError):
    """Invalid argument, file or name; the message says what to change."""


class KeywordError(UserError, TypeError):
    """Unexpected keyword argument."""


class EngineError(PlacementGymError, RuntimeError):
    """Failure of OpenVINO, a process or the machine; the message has the remedy."""


class CompileError(EngineError):
    """OpenVINO cannot compile a placement, or compiled another one."""


class PlacementGymWarning(UserWarning):
    """Caution about a result."""


def raise_interrupt(error: BaseException) -> None:
    """Raise ``KeyboardInterrupt`` if an error was caused by Ctrl-C in compiled code."""
    # Python reports it as a SystemError of numba's functions, an ImportError of OpenVINO's modules.
    is_of_compiled_code = isinstance(error, (SystemError, ImportError))
    if is_of_compiled_code and isinstance(error.__cause__, KeyboardInterrupt):
        raise KeyboardInterrupt from None


def warn_user(message: str) -> None:
    """Warn without naming a source line inside the package."""
    warnings.warn_explicit(
        make_lines_printable(message),
        PlacementGymWarning,
        filename="placement_gym",
        lineno=1,
        module="placement_gym",
        registry=globals().setdefault("__warningregistry__", {}),
    )


def unknown_name(kind: str, name: object, choices: Iterable[str]) -> UserError:
    """Make the error for an unknown name, which suggests the nearest one or lists all.

    ``kind`` is what is named, as in ``"reward"``.
    """
    names = sorted(choices)
    must_be, near = f"must be one of {', '.join(names)}", suggest(name, names)
    if not near:
        return UserError(f"{kind} {must_be}, not {name!r:.200}")
    all_names = f" It {must_be}" if len(names) <= MAX_LISTED_NAMES else ""
    return UserError(f"{kind} cannot be {name!r:.200}{near}{all_names}")


def suggest(name: object, choices: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` with the nearest name, or an empty string."""
    names = {name.lower(): name for name in choices}
    nearest = get_close_matches(str(name)[:100].lower(), names, n=1)
    return f"; did you mean {names[nearest[0]]!r}?" if nearest else ""
