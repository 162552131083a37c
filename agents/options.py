"""Options of agents: which ones a factory takes, checked before anything is made.

A factory that hands further settings on is marked by ``hands_on_to``, or returns the algorithm that
takes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, TypeVar, get_type_hints

from placement_gym.base.errors import UserError, suggest

Factory = TypeVar("Factory", bound=Callable[..., Any])
GIVEN = {
    *("self", "method", "env", "seed"),
    *("policy_kwargs", "supported_action_spaces", "_init_setup_model"),
}
"""Parameters that a factory or SB3 fills in, and ``policy``, which factories have of their own."""
OTHER_NAMES = {
    "lr": "learning_rate",
    "epochs": "n_epochs",
    "steps": "n_steps",
    "discount": "gamma",
    "entropy": "ent_coef",
    "clip": "clip_range",
}
"""Options under the names that they have elsewhere."""


def hands_on_to(*targets: Callable[..., Any]) -> Callable[[Factory], Factory]:
    """Mark a factory whose further keywords are parameters of something else than its result."""

    def mark(factory: Factory) -> Factory:
        factory.hands_on_to = targets  # type: ignore[attr-defined]
        return factory

    return mark


def list_options(factory: Callable[..., Any]) -> set[str]:
    """The names of the options that ``agents.make`` takes for a factory."""
    named, hands_on = read_parameters(factory)
    targets = getattr(factory, "hands_on_to", None)
    if hands_on and targets is None:
        targets = (get_type_hints(factory)["return"],)
    for target in targets or ():
        if isinstance(target, type):
            named |= list_settings(target) - {"policy"}
        else:
            named |= list_options(target)
    return named - GIVEN


def list_settings(kind: type) -> set[str]:
    """The parameters of a class, and of its bases as long as it hands keywords on to them."""
    settings: set[str] = set()
    for base in kind.__mro__:
        if "__init__" in vars(base):
            named, hands_on = read_parameters(vars(base)["__init__"])
            settings |= named
            if not hands_on:
                break
    return settings - set(getattr(kind, "fixed_settings", ()))


def read_parameters(function: Callable[..., Any]) -> tuple[set[str], bool]:
    """Names of parameters, and whether there are further keywords."""
    parameters = inspect.signature(function).parameters.values()
    various = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {parameter.name for parameter in parameters if parameter.kind not in various}
    return named, any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def check_options(
    agent: str, factory: Callable[..., Any], options: Collection[str], further: Collection[str] = ()
) -> None:
    """Raise unless a factory takes all options that are given.

    Raises:
        UserError: It does not; the message suggests the nearest name and lists all.
    """
    if not options:
        return
    available = list_options(factory).union(further)
    for option in options:
        if option not in available:
            other = OTHER_NAMES.get(option)
            near = (
                f"; did you mean {other!r}?" if other in available else suggest(option, available)
            )
            option_list = ", ".join(sorted(available)) or "none"
            raise UserError(
                f"agent {agent!r} has no option {option!r}{near or ';'} it has {option_list}"
            )
