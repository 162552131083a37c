"""Checks of arguments; each error says what was given and what is possible."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from placement_gym.errors import UserError, unknown_name

LATENCY, THROUGHPUT = "latency", "throughput"
OBJECTIVES = (LATENCY, THROUGHPUT)


def check_integer(name: str, value: Any, least: int) -> None:
    """Raise unless the value is an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise UserError(f"{name} must be an integer of at least {least}, not {value!r:.80}")


def check_not_negative(name: str, value: Any) -> None:
    """Raise unless the value is a finite number that is not negative."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0.0 <= value < float("inf"):
        raise UserError(f"{name} must be a number of at least 0, not {value!r:.80}")


def check_positive(name: str, value: Any) -> None:
    """Raise unless the value is a finite number above 0."""
    check_not_negative(name, value)
    if not value:
        raise UserError(f"{name} must be above 0")


def check_cache(value: Any) -> None:
    """Raise unless the value is True, False or ``"disk"``."""
    if not isinstance(value, bool) and value != "disk":
        raise UserError(f"cache must be True, False or 'disk', not {value!r:.80}")


def check_flag(name: str, value: Any) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, bool):
        raise UserError(f"{name} must be True or False, not {value!r:.80}")


def check_objective(value: Any) -> None:
    """Raise unless the value is ``"latency"`` or ``"throughput"``."""
    if value not in OBJECTIVES:
        raise unknown_name("objective", value, OBJECTIVES)


def check_requests(objective: str, value: Any) -> None:
    """Raise unless the objective has requests in flight, and the value is a number of them."""
    if objective != "throughput":
        raise UserError("requests belong to objective='throughput': latency is that of one request")
    check_integer("requests (None: one more than stages)", value, 1)
