"""From a name to an agent: the one place that imports agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

REGISTRY = "agents:AGENTS"


class UnknownAgentError(ValueError):
    """A name that is neither registered nor importable."""


@dataclass(frozen=True)
class AgentSpec:
    """An agent and how it is made.

    Attributes:
        name: A registered name, or ``"module:attribute"``.
        kwargs: Given to the agent's ``make(env, seed, **kwargs)``.
        factory: Made by this instead of what ``name`` stands for.
        alias: What tables call it; empty takes the name with its options.
        learns: Whether its ``learn`` is called; an object that is ready only predicts.
    """

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    factory: Callable[..., Any] | None = None
    alias: str = ""
    learns: bool = True

    @property
    def label(self) -> str:
        """The alias, or the name with its options behind it."""
        options = " ".join(str(value) for value in self.kwargs.values())
        return self.alias or f"{self.name} {options}".strip()

    @classmethod
    def of(cls, agent: str | Mapping[str, Any] | AgentSpec | Any) -> AgentSpec:
        """An agent from a name, ``{"name", "kwargs", "label"}``, a factory or an object.

        Raises:
            ValueError: A mapping has other keys.
        """
        if isinstance(agent, AgentSpec):
            return agent
        if isinstance(agent, str):
            return cls(agent)
        if isinstance(agent, Mapping):
            if not {"name"} <= set(agent) <= {"name", "kwargs", "label"}:
                raise ValueError(f"an agent is {{name, kwargs, label}}, not {sorted(agent)}")
            return cls(agent["name"], agent.get("kwargs", {}), alias=agent.get("label", ""))
        if hasattr(agent, "predict") and not isinstance(agent, type):
            return cls(type(agent).__name__, factory=lambda env, seed: agent, learns=False)
        return cls(getattr(agent, "__name__", repr(agent)), factory=agent)

    def resolve(self) -> Callable[..., Any]:
        """What makes the agent.

        Raises:
            UnknownAgentError: The name cannot be resolved.
        """
        return self.factory or resolve(self.name)

    def make(self, env: Any, seed: int) -> Any:
        """Build the agent for an environment.

        Raises:
            UnknownAgentError: The name cannot be resolved.
            TypeError: What was made has no ``predict``.
        """
        agent = self.resolve()(env, seed, **self.kwargs)
        if not hasattr(agent, "predict"):
            raise TypeError(f"agent {self.name!r} has no predict(obs, state, episode_start, ...)")
        return agent


def resolve(name: str) -> Callable[..., Any]:
    """The factory behind a registered name or ``"module:attribute"``.

    Raises:
        UnknownAgentError: There is none; the message says what is known.
    """
    known = registered()
    target = known.get(name, name)
    if ":" not in target:
        raise UnknownAgentError(
            f"no agent {name!r}; use 'module:attribute' or one of {sorted(known)}"
        )
    return attribute(target)


def registered() -> dict[str, str]:
    """The registered agents, name -> ``"module:attribute"``."""
    agents: dict[str, str] = attribute(REGISTRY)
    return agents


def attribute(target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UnknownAgentError(f"cannot import {target!r}: {error}") from error
