"""Agents by name: ``make`` imports a factory and calls it, ``save_weights`` keeps its weights."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from placement_gym.base.errors import unknown_name

AGENTS: dict[str, str] = {
    "single-device": "agents.static:single_device",
    "saved": "agents.static:saved",
    "openvino-hetero": "agents.static:openvino_hetero",
    "openvino-auto": "agents.static:openvino_auto",
    "random": "agents.static:random",
    "random-blocks": "agents.static:random_blocks",
    "prefix": "agents.static:prefix",
    "window": "agents.static:window",
    "hill-climb": "agents.search.annealing:hill_climb",
    "annealing": "agents.search.annealing:annealing",
    "genetic": "agents.search.genetic:genetic",
    "search": "agents.search.anytime:SearchAgent",
    "fill-in-order": "agents.solvers:fill_in_order",
    "heft": "agents.solvers:heft",
    "critical-path": "agents.solvers:critical_path",
    "m-topo": "agents.solvers:m_topo",
    "m-etf": "agents.solvers:m_etf",
    "min-cut": "agents.solvers:min_cut",
    "milp": "agents.solvers:milp",
    "alpha-expansion": "agents.solvers:alpha_expansion",
    "dp": "agents.solvers:dp",
    "dpl": "agents.solvers:dpl",
    "balance": "agents.solvers:balance",
    "greedy-fill": "agents.solvers:greedy_fill",
    "call-milp": "agents.solvers:call_milp",
    "hsdag": "agents.hsdag.agent:make",
    "placeto": "agents.placeto.agent:make",
    "placeto-transfer": "agents.placeto.transfer:make",
    "rnn": "agents.rnn.agent:make",
    "hdp": "agents.rnn.agent:make_hierarchical",
    "post": "agents.post.agent:make",
    "gdp": "agents.gdp.agent:make",
    "doppler": "agents.doppler.agent:make",
}


def save_weights(model: Any, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
    """Write the weights of a learned agent to a file that holds no code, to pass on.

    ``make(name, env, weights=path)`` begins with them, in ``doppler`` ``checkpoint=path``. See
    ``agents.common.weights``.

        agents.save_weights(agent, "mine.safetensors")
        agent = agents.make("hsdag", env, weights="mine.safetensors")

    Args:
        model: A learned agent, or any model or policy of SB3.
        path: The file, which is replaced.
        about: How it was trained, plain values.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
    """
    from agents.common import weights

    weights.save_weights(model, path, about)


def load_weights(model: Any, path: str | Path) -> None:
    """Give a model of SB3, or a policy, the weights of a file of ``save_weights``.

    Args:
        model: Made with the same options as the one that was saved, for any graph.
        path: The file, by anyone: nothing in it is run.

    Raises:
        FileError: The file cannot be read.
        UserError: It is damaged, or of another policy.
    """
    from agents.common import weights

    weights.load_weights(model, path)


def make(name: str, env: Any, seed: int = 0, **options: Any) -> Any:
    """Make an agent with the settings that it is compared with.

    ``placement-gym agents`` lists the names, ``placement-gym agents NAME`` the options of one.

        agent = agents.make("hsdag", env)                   # policy gradient, random starts
        agent = agents.make("hsdag", env, preset="paper")   # those of its publication

    Args:
        name: A key of ``AGENTS``.
        env: The environment to place in.
        seed: Seed of all random numbers.
        options: Those of the agent's own ``make``.

    Returns:
        An object with ``predict``; one that searches or learns also has ``learn``.

    Raises:
        UserError: There is no such agent; the message suggests the nearest name.
    """
    if name not in AGENTS:
        raise unknown_name("agent", name, AGENTS)
    module, _, attribute = AGENTS[name].partition(":")
    return getattr(import_module(module), attribute)(env, seed, **options)
