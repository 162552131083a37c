"""Agents by name: where their factories are, and ``make``, which imports one and calls it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from placement_gym.errors import unknown_name

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
    "cross-entropy": "agents.search.cross_entropy:CrossEntropy",
    "genetic": "agents.search.genetic:genetic",
    "list-sampling": "agents.list_sampling:ListSampling",
    "fill-in-order": "agents.solvers:fill_in_order",
    "heft": "agents.solvers:heft",
    "critical-path": "agents.solvers:critical_path",
    "m-topo": "agents.solvers:m_topo",
    "m-etf": "agents.solvers:m_etf",
    "min-cut": "agents.solvers:min_cut",
    "milp": "agents.solvers:milp",
    "alpha-expansion": "agents.solvers:alpha_expansion",
    "multilevel": "agents.multilevel:Multilevel",
    "neighbourhood": "agents.neighbourhood:Neighbourhood",
    "dp": "agents.solvers:dp",
    "dpl": "agents.solvers:dpl",
    "balance": "agents.solvers:balance",
    "greedy-fill": "agents.solvers:greedy_fill",
    "call-milp": "agents.solvers:call_milp",
    "path-load": "agents.path_load:make",
    "beam": "agents.beam:make",
    "hsdag": "agents.hsdag.agent:make",
    "placeto": "agents.placeto.agent:make",
    "placeto-transfer": "agents.placeto.transfer:make",
    "rnn": "agents.rnn.agent:make",
    "hdp": "agents.rnn.agent:make_hierarchical",
    "post": "agents.post.agent:make",
    "sequential": "agents.sequential.agent:make",
    "doppler": "agents.doppler.agent:make",
}


def make(name: str, env: Any, seed: int = 0, **options: Any) -> Any:
    """Make an agent with the settings that it is compared with.

    ``placement-gym agents`` lists the names, ``placement-gym agents NAME`` the options of one.

        agent = agents.make("hsdag", env)                   # tuned settings
        agent = agents.make("hsdag", env, preset="paper")   # those of its publication
        agent = agents.make("sequential", env)              # the network of this package

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
