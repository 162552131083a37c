"""Agents by name: ``make`` and ``make_trainer`` import a factory and call it.

Torch is imported when ``REINFORCE``, ``load``, ``save_weights`` or a learned agent is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import lazy_loader

from agents.options import check_options
from placement_gym.base import UserError, explain_on_import, explain_removal, unknown_name

if TYPE_CHECKING:
    from agents.common import REINFORCE as REINFORCE
    from agents.common import load_weights as load_weights
    from agents.common import save_weights as save_weights
    from agents.loading import load as load

find_lazily, *_ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "common.reinforce": ["REINFORCE"],
        "common.weights": ["load_weights", "save_weights"],
        "loading": ["load"],
    },
)
__getattr__ = explain_on_import(__name__, find_lazily)
__all__ = ["AGENTS", "REINFORCE", "load", "load_weights", "make", "make_trainer", "save_weights"]
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
    "annealing": "agents.search.annealing:Annealing",
    "search": "agents.search.anytime:SearchAgent",
    "fill-in-order": "agents.solvers:fill_in_order",
    "greedy": "agents.solvers:greedy",
    "heft": "agents.solvers:heft",
    "critical-path": "agents.solvers:critical_path",
    "m-etf": "agents.solvers:m_etf",
    "min-cut": "agents.solvers:min_cut",
    "milp": "agents.solvers:milp",
    "dp": "agents.solvers:dp",
    "dpl": "agents.solvers:dpl",
    "pipedream": "agents.solvers:pipedream",
    "metis": "agents.solvers:metis",
    "model-per-device": "agents.solvers:model_per_device",
    "max-load": "agents.solvers:max_load",
    "greedy-fill": "agents.solvers:greedy_fill",
    "list-policy": "agents.list_policy:ListPolicyAgent",
    "logits": "agents.logits:make",
    "graph-groups": "agents.graph_groups:make",
    "hsdag": "agents.hsdag:make",
    "placeto": "agents.placeto:make",
    "placeto-transfer": "agents.placeto.transfer:make",
    "rnn": "agents.rnn:make",
    "hdp": "agents.rnn:make_hierarchical",
    "post": "agents.post:make",
    "gdp": "agents.gdp:make",
    "gcn": "agents.gdp:make_gcn",
    "doppler": "agents.doppler:make",
}
LEARNERS = ("logits", "graph-groups", "hsdag", "placeto", "rnn", "hdp", "post", "gdp", "gcn")
"""Agents that learn from the rewards of their environment, as models of Stable-Baselines3."""
TRAINED = ("gdp", "list-policy", "placeto")
"""Agents of ``make_trainer``."""


def make(name: str, env: Any, seed: int = 0, **options: Any) -> Any:
    """Make an agent, by default with the settings of the comparisons.

    ``placement-gym agents`` lists the names, ``placement-gym agents NAME`` the options of one::

        agent = agents.make("hsdag", env)
        agent = agents.make("hsdag", env, preset="paper")  # settings of its publication
        agent.learn(2_000)
        agent.best.placement.save("placement.json")  # the fastest placement that was evaluated

    Learned agents step the wrappers of an environment. A reward or a horizon that ``gym.make`` was
    given overrides the preset's, with a warning.

    Args:
        name: A key of ``AGENTS``.
        env: The environment to place in. Learned agents also take a list of environments of one
            size, or a ``VecEnv`` of Stable-Baselines3.
        seed: Seed of all random numbers.
        options: Those of the agent's own ``make``.

    Returns:
        An object with ``predict``; one that searches or learns also has ``learn`` and ``best``.

    Raises:
        UserError: There is no such agent or option; the message names the nearest.
    """
    if name not in AGENTS:
        raise unknown_agent(name)
    module, _, attribute = AGENTS[name].partition(":")
    factory = getattr(import_module(module), attribute)
    check_options(name, factory, options)
    if name not in LEARNERS and isinstance(env, list | tuple):
        raise UserError(f"{name} places in one environment: give it one, not {len(env)}")
    return factory(env, seed, **options)


def make_trainer(name: str, seed: int = 0, **options: Any) -> Any:
    """Make a trainer of an agent across generated problems, which ``learn`` draws.

    ``save_weights`` writes what was learned, which ``make`` takes as ``weights``. For
    ``"list-policy"``, ``export().save`` writes it, and ``make`` takes it as ``policy``.

    Args:
        name: One of ``TRAINED``.
        seed: Seed of weights and problems.
        options: Those of ``make_trainer`` in the agent's own module.

    Raises:
        UserError: No such agent is trained across problems.
    """
    if name not in TRAINED:
        raise unknown_name("agent to train across problems", name, TRAINED)
    module, _, _ = AGENTS[name].partition(":")
    return import_module(module).make_trainer(seed, **options)


def __dir__() -> list[str]:
    return __all__


def unknown_agent(name: str) -> UserError:
    """The error for an unknown name: what to use now, or the nearest one."""
    if removal := explain_removal("agent", name):
        return UserError(removal)
    return unknown_name("agent", name, AGENTS)
