"""Checks of arguments; errors name the value and the valid ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from functools import wraps
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from placement_gym.base.errors import KeywordError, UserError, suggest, unknown_name
from placement_gym.base.removed import explain_removal

SPLITS = ("auto", "alias", "hetero")
EXECUTORS = ("auto", "serial", "processes", "ray")

MAX_INTEGER = 2**62
"""Maximum integer argument: half of the range of int64."""
MAX_HORIZON = 2**31 - 1
MAX_NOISE = 10.0
"""Maximum standard deviation of the logarithm of a latency."""
MAX_NUMBER = 1e12
"""Maximum number as an argument. Hand-tuned; its square is finite in f32."""
P = ParamSpec("P")
T = TypeVar("T")


def check_integer(name: str, value: Any, least: int, most: int = MAX_INTEGER) -> None:
    """Raise unless the value is an integer from ``least`` to ``most``."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or not least <= value <= most:
        bound = f"of at most {most}" if is_integer and value > most else f"of at least {least}"
        raise UserError(f"{name} must be an integer {bound}, not {show_value(value)}")


def parse_count(name: str, value: Any, least: int, most: int = MAX_INTEGER) -> int:
    """Return the integer of a number such as 1e6; raise unless it is from ``least`` to ``most``."""
    check_integer(name, count := as_whole(value), least, most)
    return int(count)


def as_whole(value: Any) -> Any:
    """Convert a whole float to an integer; keep other values."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def check_not_negative(name: str, value: Any, most: float = MAX_NUMBER) -> None:
    """Raise unless the value is a number from 0 to ``most``."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value <= most:
        bound = f"of at most {most:g}" if is_number and value > most else "of at least 0"
        raise UserError(f"{name} must be a number {bound}, not {show_value(value)}")


def show_value(value: Any) -> str:
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


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise unless the value is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise unknown_name(name, value, choices)


def check_sequence(name: str, value: Any, example: object) -> None:
    """Raise unless the value is a list or a tuple; the message shows ``example``."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise UserError(f"{name} must be a list, as in {example}, not {show_value(value)}")


def check_plain_fields(
    options: Any, may_be_zero: Collection[str] = (), shares: Collection[str] = ()
) -> None:
    """Check the integers, numbers and flags of a dataclass against their types.

    Integers are at least 1 unless they ``may_be_zero``, and ``shares`` are at most 1.
    """
    for field in fields(options):
        value = getattr(options, field.name)
        if field.type in (int, "int"):
            check_integer(field.name, value, 0 if field.name in may_be_zero else 1)
        elif field.type in (float, "float"):
            check_not_negative(field.name, value, 1.0 if field.name in shares else MAX_NUMBER)
        elif field.type in (bool, "bool"):
            check_flag(field.name, value)


def suggest_keywords(function: Callable[P, T], *inner: Callable[..., Any]) -> Callable[P, T]:
    """Suggest the nearest name for an unknown keyword; ``inner`` get the keywords, too."""
    keywords = {name for one in (function, *inner) for name in inspect.signature(one).parameters}
    keywords -= {"self", "kwargs"}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in keywords:
                raise explain_keyword(function.__qualname__, name, keywords)
        return function(*args, **kwargs)

    return checked


def explain_keyword(function: str, name: str, keywords: Collection[str]) -> KeywordError:
    if removal := explain_removal("argument", name):
        return KeywordError(f"{function}(): {removal}")
    remedy = suggest(name, keywords)
    if not remedy and "env_kwargs" in keywords:
        remedy = f": is it of gym.make? Then pass env_kwargs={{{name!r}: ...}}"
    remedy = remedy or f" (it takes {', '.join(sorted(keywords))})"
    return KeywordError(f"{function}() got an unexpected keyword argument {name!r}{remedy}")
