"""The package's errors and warnings: errors of the user, and failures of the engine."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from difflib import get_close_matches

from placement_gym.base.texts import make_lines_printable

MAX_LISTED_NAMES = 12
"""Names that an error message lists in full; of more it only suggests the nearest. Hand-tuned."""


class PlacementGymError(Exception):
    """Any error that this package raises on purpose; its message is for the user."""


class UserError(PlacementGymError, ValueError):
    """A wrong argument, file or name; the message says what to change."""


class KeywordError(UserError, TypeError):
    """A keyword that a function does not take."""


class EngineError(PlacementGymError, RuntimeError):
    """OpenVINO, a process or the machine refused or failed; the message has the remedy."""


class CompileError(EngineError):
    """OpenVINO refused a placement, or compiled something else."""


class PlacementGymWarning(UserWarning):
    """A caution to read before trusting a result."""


def raise_interrupt(error: BaseException) -> None:
    """Raise ``KeyboardInterrupt`` if that is what an error is: Ctrl-C in compiled code.

    Numba's functions return with the interrupt pending, which Python reports as a ``SystemError``;
    a compiled module that is being loaded, as OpenVINO's, ends with an ``ImportError``.
    """
    of_compiled_code = isinstance(error, (SystemError, ImportError))
    if of_compiled_code and isinstance(error.__cause__, KeyboardInterrupt):
        raise KeyboardInterrupt from None


def warn_user(message: str) -> None:
    """Warn in one line, without the path and the source line of a caller inside the package."""
    warnings.warn_explicit(
        make_lines_printable(message),
        PlacementGymWarning,
        filename="placement_gym",
        lineno=1,
        module="placement_gym",
        registry=globals().setdefault("__warningregistry__", {}),
    )


def unknown_name(kind: str, name: object, choices: Iterable[str]) -> UserError:
    """The error for a name that is not known: it suggests the nearest one, or lists all.

    A long list is left out where there is a nearest name.

    Args:
        kind: What the name should be, as in ``"reward"``.
        name: The unknown name.
        choices: The names that exist.
    """
    names = sorted(choices)
    name_list, near = ", ".join(names), suggest(name, names)
    if not near:
        return UserError(f"{kind} must be one of {name_list}, not {name!r:.200}")
    all_names = f" It must be one of {name_list}" if len(names) <= MAX_LISTED_NAMES else ""
    return UserError(f"{kind} cannot be {name!r:.200}{near}{all_names}")


def suggest(name: object, choices: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` with the nearest known name, or an empty string."""
    names = {name.lower(): name for name in choices}
    nearest = get_close_matches(str(name)[:100].lower(), names, n=1)
    return f"; did you mean {names[nearest[0]]!r}?" if nearest else ""
