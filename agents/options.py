"""Options of agents: names, defaults and meanings, read from signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Any, NamedTuple

from placement_gym.base import UserError, suggest

GIVEN = {"self", "env", "seed", "args", "kwargs", "settings", "policy_kwargs", "_init_setup_model"}
"""Parameters that ``agents.make`` or SB3 fills in."""
OTHER_NAMES = {
    "lr": "learning_rate",
    "epochs": "n_epochs",
    "steps": "n_steps",
    "discount": "gamma",
    "entropy": "ent_coef",
    "clip": "clip_range",
}
"""Names that options have elsewhere -> here."""


class Option(NamedTuple):
    """The default of an option, and what its docstring says."""

    default: Any
    meaning: str


def list_options(factory: Callable[..., Any]) -> dict[str, Option]:
    """The options that ``agents.make`` takes for a factory, which may list its own."""
    listed: Callable[[], dict[str, Option]] | None = getattr(factory, "list_options", None)
    return read_options(factory) if listed is None else listed()


def read_options(
    function: Callable[..., Any], defaults: Mapping[str, Any] | None = None
) -> dict[str, Option]:
    """The parameters of a function, with its own or these defaults, and their docstrings."""
    lines = (inspect.getdoc(function) or "").replace("``", "").partition("Args:\n")[2]
    meanings: dict[str, str] = {}
    name = ""
    for line in lines.partition("\n\n")[0].splitlines():
        if not line.startswith(" " * 5):
            name, _, line = line.strip().partition(":")
        meanings[name] = f"{meanings.get(name, '')} {line.strip()}".strip()
    options = {}
    for name, parameter in inspect.signature(function).parameters.items():
        default = None if parameter.default is parameter.empty else parameter.default
        default = (defaults or {}).get(name, default)
        if callable(default) or default == inf:  # a schedule, or no limit
            default = getattr(default, "__name__", str(default))
        if name not in GIVEN:
            options[name] = Option(default, meanings.get(name, ""))
    return options


def check_options(
    agent: str, factory: Callable[..., Any], options: Collection[str], further: Collection[str] = ()
) -> None:
    """Raise a ``UserError`` for an unknown option, with the nearest name and a list of all."""
    if not options:
        return
    available = list_options(factory).keys() | further
    for option in sorted(set(options) - available):
        other = OTHER_NAMES.get(option)
        near = f"; did you mean {other!r}?" if other in available else suggest(option, available)
        names = ", ".join(sorted(available)) or "none"
        raise UserError(f"agent {agent!r} has no option {option!r}{near or ';'} it has {names}")
