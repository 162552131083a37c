"""From a name to an agent: the one place that imports agents."""

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

from placement_gym.base.arguments import check_flag
from placement_gym.base.errors import UserError, unknown_name
from placement_gym.base.files import IMPORT_ROOT
from placement_gym.base.schemas.reading import check
from placement_gym.base.schemas.studies import AgentFields
from placement_gym.base.texts import join_words

IMPORTABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""``"module:attribute"``."""

DISTRIBUTION = "placement-gym"
REPAIR = "repair"
"""An option of every agent that the harness takes: whether its placements are repaired."""
SINGLE_DEVICE = "single-device"
ENGINE_AGENTS = ("openvino-hetero", "openvino-auto")
"""OpenVINO's own choice."""
UNCHANGED = (SINGLE_DEVICE, "saved", *ENGINE_AGENTS, "fill-in-order")
"""Fixed choices that a repair would turn into another one."""


class UnknownAgentError(UserError):
    """A name that is neither registered nor importable."""


@dataclass(frozen=True)
class AgentSpec:
    """An agent and how it is made.

    Attributes:
        name: A registered name, or ``"module:attribute"``.
        kwargs: Given to the agent's ``make(env, seed, **kwargs)``, but ``repair``: whether the
            harness repairs its placements.
        factory: The factory or the agent itself, where no name can be imported.
        alias: Name in tables; empty takes ``name`` with its options.
    """

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    factory: Any = None
    alias: str = ""

    @property
    def label(self) -> str:
        """The alias, or the name followed by its options."""
        options = " ".join(str(value) for value in self.make_kwargs.values())
        repaired = {None: "", True: ", repaired", False: ", no repair"}[self.repair]
        return self.alias or f"{self.name} {options}".strip() + repaired

    @property
    def repair(self) -> bool | None:
        """True if its placements are to be repaired; None if it does not say.

        Raises:
            UserError: The option is neither True nor False.
        """
        if REPAIR in self.kwargs:
            check_flag(REPAIR, self.kwargs[REPAIR])
        return self.kwargs.get(REPAIR)

    @property
    def make_kwargs(self) -> dict[str, Any]:
        """The options of its factory."""
        return {key: value for key, value in self.kwargs.items() if key != REPAIR}

    @classmethod
    def of(cls, agent: str | Mapping[str, Any] | AgentSpec | Any) -> AgentSpec:
        """An agent from a name, ``{"name", "kwargs", "label"}``, a factory or an object.

        Raises:
            UserError: A mapping has other keys.
        """
        if isinstance(agent, AgentSpec):
            return agent
        if isinstance(agent, str):
            return cls(agent)
        if isinstance(agent, Mapping):
            return cls._of_json(agent)
        if is_agent(agent):
            return cls(type(agent).__name__, factory=agent)
        return cls(getattr(agent, "__name__", repr(agent)), factory=agent)

    @classmethod
    def _of_json(cls, values: Mapping[str, Any]) -> AgentSpec:
        try:
            fields = check(AgentFields, values)
        except UserError as error:
            raise UserError(f"an agent is {{name, kwargs, label}}: {error}") from error
        return cls(fields.name, fields.kwargs or {}, alias=fields.label or "")

    def load(self) -> Any:
        """Import the factory of the agent, or the agent itself.

        Raises:
            UnknownAgentError: The name is unknown or cannot be imported.
        """
        return load_agent(self.name) if self.factory is None else self.factory

    def check(self) -> None:
        """Raise unless it can be imported and has the options that are given.

        Raises:
            UnknownAgentError: The name is unknown or cannot be imported.
            UserError: An option is unknown; the message suggests the nearest one.
        """
        found = self.load()
        if is_agent(found):
            return
        if not callable(found):
            raise UserError(
                f"agent {self.name!r} must be a function make(env, seed) or an object with "
                f"predict, not a {type(found).__name__}"
            )
        parameters = inspect.signature(found).parameters
        if self.factory is None and self.name in registered_agents():
            check_options = load_bundled("agents.options:check_options")
            check_options(self.name, found, self.kwargs, (REPAIR,))
            return
        if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
            return  # its own algorithm has them
        known = [REPAIR, *(name for name in parameters if name not in ("env", "seed", "self"))]
        for option in self.kwargs:
            if option not in known:
                raise unknown_name(f"an option of agent {self.name!r}", option, known)

    @property
    def learns(self) -> bool:
        """True if its ``learn`` is called, where it has one; an object only predicts."""
        return not is_agent(self.load())

    def make(self, env: Any, seed: int) -> Any:
        """Build the agent for an environment; an agent given as an object is used as it is.

        Raises:
            UnknownAgentError: The name is unknown or cannot be imported.
            TypeError: The factory returned something without ``predict``.
        """
        found = self.load()
        agent = found if is_agent(found) else found(env, seed, **self.make_kwargs)
        if not hasattr(agent, "predict"):
            raise TypeError(f"agent {self.name!r} has no predict(obs, state, episode_start, ...)")
        return agent


def is_agent(agent: Any) -> bool:
    """Return whether something is an agent and not the factory of one."""
    return hasattr(agent, "predict") and not isinstance(agent, type)


def check_labels(agents: Sequence[AgentSpec]) -> None:
    """Raise if a table could not tell two agents apart.

    Raises:
        UserError: Two agents have the same label.
    """
    counts = Counter(agent.label for agent in agents)
    twice = sorted(label for label, count in counts.items() if count > 1)
    if twice:
        raise UserError(
            f"two agents are called {twice[0]!r:.200}: leave one out, or give each a label of its "
            "own, as in {name: heft, label: mine}"
        )


def check_objects(agents: Sequence[AgentSpec]) -> None:
    """Raise if an agent in memory has the name of another one: rows could not tell them apart.

    Raises:
        UserError: Its name is registered, or another agent has it.
    """
    counts, known = Counter(agent.name for agent in agents), registered_agents()
    for agent in agents:
        shipped = load_agent(agent.name) if agent.name in known else None
        if agent.factory is None or agent.factory is shipped:
            continue
        if shipped is not None or counts[agent.name] > 1:
            raise UserError(f"another agent is called {agent.name!r}: rename your own")


def load_agent(name: str) -> Any:
    """Import the factory, or the agent, of a registered name or ``"module:attribute"``.

    Raises:
        UnknownAgentError: The name is unknown or cannot be imported; the message lists the names.
    """
    known = registered_agents()
    target = known.get(name, name)
    if ":" not in target:
        unknown = unknown_name("agent", name, known)
        own = "your own agent is 'module:attribute', and `placement-gym agents` lists all others"
        raise UnknownAgentError(f"{unknown} ({own})")
    if name not in known:
        find_modules_in(Path.cwd())
    return import_attribute(target)


def find_modules_in(folder: str | Path) -> None:
    """Let ``my_module:make`` be found in a folder, which comes last on the module path.

    Nothing in it hides a module of Python or of this package, whose own folder comes before it: an
    editable install is not on ``sys.path``.
    """
    for path in (str(IMPORT_ROOT), str(folder)):
        if path not in sys.path:
            sys.path.append(path)


def registered_agents() -> dict[str, str]:
    """The registered agents: name -> ``"module:attribute"``."""
    agents: dict[str, str] = load_bundled("agents:AGENTS")
    return agents


def load_bundled(target: str) -> Any:
    """Import what ``"module:attribute"`` names in the package of agents that comes with this one.

    Raises:
        UnknownAgentError: Another package of that name hides it; the message says which.
    """
    find_modules_in(IMPORT_ROOT)
    try:
        return import_attribute(target)
    except UnknownAgentError as error:
        owners = {*packages_distributions().get("agents", [])} - {DISTRIBUTION}
        other = f"that of {join_words(sorted(owners))}" if owners else "another one of that name"
        origin = getattr(sys.modules.get("agents"), "__file__", None) or "the module path"
        raise UnknownAgentError(
            f"the package 'agents' in {origin} is not that of {DISTRIBUTION}, but {other} "
            f"({error.__cause__}). Each may have overwritten files of the other: install "
            f"{DISTRIBUTION} into a new environment of its own"
        ) from error


def import_attribute(target: str) -> Any:
    """Import the attribute that ``"module:attribute"`` names.

    Raises:
        UnknownAgentError: There is no such module or attribute.
    """
    if not IMPORTABLE.fullmatch(target):
        raise UnknownAgentError(f"your own agent is 'module:attribute', not {target!r:.80}")
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        origin = describe_origin(module.partition(".")[0])
        absent = isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]
        where = " in this folder or among installed packages" if absent else ""
        raise UnknownAgentError(f"cannot import {target!r}: {error}{where}{origin}") from error


def describe_origin(package: str) -> str:
    """Say where a package was imported from, as another one of its name may hide it.

    Returns:
        The end of an error message; an empty string if the package is not imported.
    """
    found = sys.modules.get(package)
    if found is None:
        return ""
    origin = getattr(found, "__file__", None) or ", ".join(getattr(found, "__path__", []))
    return f"; {package!r} was imported from {origin}: if that is another package, rename one"
