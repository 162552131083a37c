"""Checks of arguments; each error says what was given and what is possible."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from placement_gym.base.errors import UserError, unknown_name

LATENCY, THROUGHPUT = "latency", "throughput"
OBJECTIVES = (LATENCY, THROUGHPUT)
SPLITS = ("auto", "alias", "hetero")
EXECUTORS = ("auto", "serial", "processes", "ray")
PICTURES = ("png", "svg", "pdf")

MAX_INTEGER = 2**62
MAX_HORIZON = 2**31 - 1
MAX_NOISE = 10.0
"""Of the logarithm of a latency."""
MAX_NUMBER = 1e12
"""Larger numbers mean nothing here, and arithmetic with them overflows."""


def check_integer(name: str, value: Any, least: int, most: int = MAX_INTEGER) -> None:
    """Raise unless the value is an integer from ``least`` to ``most``."""
    integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not integer or not least <= value <= most:
        bound = f"of at most {most}" if integer and value > most else f"of at least {least}"
        raise UserError(f"{name} must be an integer {bound}, not {shown(value)}")


def check_not_negative(name: str, value: Any, most: float = MAX_NUMBER) -> None:
    """Raise unless the value is a number from 0 to ``most``."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0.0 <= value <= most:
        bound = f"of at most {most:g}" if number and value > most else "of at least 0"
        raise UserError(f"{name} must be a number {bound}, not {shown(value)}")


def shown(value: Any) -> str:
    """The value as a message shows it, cut off where it is long."""
    if isinstance(value, Integral) and abs(int(value)) >= MAX_INTEGER:
        return "one that is out of range"
    return f"{value!r:.80}"


def check_positive(name: str, value: Any) -> None:
    """Raise unless the value is a finite number above 0."""
    check_not_negative(name, value)
    if not value:
        raise UserError(f"{name} must be above 0")


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
