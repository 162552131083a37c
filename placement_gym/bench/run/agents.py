"""Agents by name: the only module that imports them."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from placement_gym.base import (
    IMPORT_ROOT,
    UserError,
    check_flag,
    join_words,
    raise_interrupt,
    unknown_name,
)
from placement_gym.base.schemas import AgentFields, check

IMPORTABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""``"module:attribute"``."""
DISTRIBUTION = "placement-gym"
REPAIR = "repair"
"""An option of every agent, for the harness: whether its placements are repaired."""
SINGLE_DEVICE = "single-device"
ENGINE_AGENTS = ("openvino-hetero", "openvino-auto")
"""OpenVINO's own choice."""
UNCHANGED = (SINGLE_DEVICE, "saved", *ENGINE_AGENTS, "fill-in-order")
"""Fixed choices that a repair would turn into another one."""


class UnknownAgentError(UserError):
    """A name that is neither registered nor importable."""


@dataclass(frozen=True)
class AgentSpec:
    """An agent and its options.

    Attributes:
        name: A registered name, or ``"module:attribute"``.
        kwargs: Options of the agent's ``make(env, seed, **kwargs)``, and ``repair``.
        factory: The factory or the agent itself; None imports ``name``.
        alias: Name in tables; empty for ``name`` with its options.
    """

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    factory: Any = None
    alias: str = ""

    @property
    def label(self) -> str:
        """The alias, or the name followed by its options."""
        options = " ".join(str(value) for value in self.make_kwargs.values())
        suffix = {None: "", True: ", repaired", False: ", no repair"}[self.repair]
        return self.alias or f"{self.name} {options}".strip() + suffix

    @property
    def repair(self) -> bool | None:
        """True if its placements are repaired; None without that option."""
        if REPAIR in self.kwargs:
            check_flag(REPAIR, self.kwargs[REPAIR])
        return self.kwargs.get(REPAIR)

    @property
    def make_kwargs(self) -> dict[str, Any]:
        return {key: value for key, value in self.kwargs.items() if key != REPAIR}

    @classmethod
    def from_value(cls, agent: str | Mapping[str, Any] | AgentSpec | Any) -> AgentSpec:
        """An agent from a name, ``{"name", "kwargs", "label"}``, a factory or an object."""
        if isinstance(agent, AgentSpec):
            return agent
        if isinstance(agent, str):
            return cls(agent)
        if not isinstance(agent, Mapping):
            named = type(agent) if is_agent(agent) else agent
            return cls(getattr(named, "__name__", repr(agent)), factory=agent)
        try:
            fields = check(AgentFields, agent)
        except UserError as error:
            raise UserError(f"an agent is {{name, kwargs, label}}: {error}") from error
        return cls(fields.name, fields.kwargs or {}, alias=fields.label or "")

    def load(self) -> Any:
        """Import the factory of the agent, or the agent itself; see ``load_agent``."""
        return load_agent(self.name) if self.factory is None else self.factory

    def check(self) -> None:
        """Raise a ``UserError`` unless it can be imported and has the options of ``kwargs``."""
        factory = self.load()
        if is_agent(factory):
            return
        if not callable(factory):
            raise UserError(
                f"agent {self.name!r} must be a function make(env, seed) or an object with "
                f"predict, not a {type(factory).__name__}"
            )
        parameters = inspect.signature(factory).parameters
        if self.factory is None and self.name in registered_agents():
            check_options = load_bundled("agents.options:check_options")
            check_options(self.name, factory, self.kwargs, (REPAIR,))
            return
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            return  # they belong to its algorithm, which checks them
        options = [REPAIR, *(name for name in parameters if name not in ("env", "seed", "self"))]
        for option in self.kwargs:
            if option not in options:
                raise unknown_name(f"an option of agent {self.name!r}", option, options)

    @property
    def learns(self) -> bool:
        """True if its ``learn`` is called; an agent object only predicts."""
        return not is_agent(self.load())

    def make(self, env: Any, seed: int) -> Any:
        """Build the agent for an environment; an agent object is returned unchanged."""
        factory = self.load()
        agent = factory if is_agent(factory) else factory(env, seed, **self.make_kwargs)
        if not hasattr(agent, "predict"):
            raise TypeError(f"agent {self.name!r} has no predict(obs, state, episode_start, ...)")
        return agent


def is_agent(agent: Any) -> bool:
    return hasattr(agent, "predict") and not isinstance(agent, type)


def check_labels(agents: Sequence[AgentSpec]) -> None:
    """Raise a ``UserError`` if two agents would have the same name in a table."""
    # Labels, not names: one agent with two settings is two rows of a table.
    counts = Counter(agent.label for agent in agents)
    if duplicates := [label for label, count in counts.items() if count > 1]:
        raise UserError(
            f"two agents are called {min(duplicates)!r:.200}: remove one, or give each its own "
            "label, as in {name: heft, label: mine}"
        )


def check_objects(agents: Sequence[AgentSpec]) -> None:
    """Raise a ``UserError`` if an agent in memory has the name of another one."""
    counts, registered = Counter(agent.name for agent in agents), registered_agents()
    for agent in agents:
        shipped = load_agent(agent.name) if agent.name in registered else None
        if agent.factory is None or agent.factory is shipped:
            continue
        if shipped is not None or counts[agent.name] > 1:
            raise UserError(f"another agent is called {agent.name!r}: rename your own")


def load_agent(name: str) -> Any:
    """Import the factory, or the agent, of a registered name or ``"module:attribute"``."""
    registered = registered_agents()
    target = registered.get(name, name)
    if ":" not in target:
        unknown = load_bundled("agents:unknown_agent")(name)
        hint = "your own agent is 'module:attribute', and `placement-gym agents` lists all others"
        raise UnknownAgentError(f"{unknown} ({hint})")
    if name not in registered:  # a user's module `agents` must not hide the shipped ones
        find_modules_in(Path.cwd())
    return import_attribute(target)


def find_modules_in(folder: str | Path) -> None:
    """Make modules in a folder importable, as in ``my_module:make``."""
    # At the end of the path, they hide no module of Python. `IMPORT_ROOT` is added as an editable
    # install is not on the path.
    for path in (str(IMPORT_ROOT), str(folder)):
        if path not in sys.path:
            sys.path.append(path)


def registered_agents() -> dict[str, str]:
    agents: dict[str, str] = load_bundled("agents:AGENTS")
    return agents


def load_bundled(target: str) -> Any:
    """Import ``"module:attribute"`` from the package ``agents`` of this distribution."""
    find_modules_in(IMPORT_ROOT)
    try:
        return import_attribute(target)
    except UnknownAgentError as error:
        owners = sorted({*packages_distributions().get("agents", [])} - {DISTRIBUTION})
        description = f"that of {join_words(owners)}" if owners else "another one of that name"
        origin = getattr(sys.modules.get("agents"), "__file__", None) or "the module path"
        raise UnknownAgentError(
            f"the package 'agents' in {origin} is not that of {DISTRIBUTION}, but {description} "
            f"({error.__cause__}). Each may have overwritten files of the other: install "
            f"{DISTRIBUTION} into a separate environment"
        ) from error


def import_attribute(target: str) -> Any:
    if not IMPORTABLE.fullmatch(target):
        raise UnknownAgentError(f"your own agent is 'module:attribute', not {target!r:.80}")
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise_interrupt(error)
        package, hint = module.partition(".")[0], ""
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            hint = " in this folder or among installed packages"
        # The usual reason is another package of that name, which Python's message does not show.
        if found := sys.modules.get(package):
            origin = getattr(found, "__file__", None) or ", ".join(getattr(found, "__path__", []))
            hint += f"; {package!r} was imported from {origin}: if that is another package, "
            hint += "rename one"
        raise UnknownAgentError(f"cannot import {target!r}: {error}{hint}") from error
