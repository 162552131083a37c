"""Agents by name; nothing is imported before it is asked for."""

from __future__ import annotations

AGENTS: dict[str, str] = {
    "single-device": "agents.static:single_device",
    "saved": "agents.static:saved",
    "openvino-hetero": "agents.static:openvino_hetero",
    "openvino-auto": "agents.static:openvino_auto",
    "random": "agents.static:random",
    "random-blocks": "agents.static:random_blocks",
    "prefix": "agents.static:prefix",
    "window": "agents.static:window",
    "hill-climb": "agents.search:hill_climb",
    "annealing": "agents.search:annealing",
    "cross-entropy": "agents.search:CrossEntropy",
    "genetic": "agents.search:Genetic",
    "heft": "agents.exact:heft",
    "critical-path": "agents.exact:critical_path",
    "m-topo": "agents.exact:m_topo",
    "m-etf": "agents.exact:m_etf",
    "min-cut": "agents.exact:min_cut",
    "milp": "agents.exact:milp",
    "alpha-expansion": "agents.exact:alpha_expansion",
    "dp": "agents.exact:dp",
    "dpl": "agents.exact:dpl",
    "greedy-fill": "agents.exact:greedy_fill",
    "call-milp": "agents.exact:call_milp",
    "hsdag": "agents.hsdag.agent:make",
    "placeto": "agents.placeto.agent:make",
    "rnn": "agents.rnn.agent:make",
    "hdp": "agents.rnn.agent:make_hierarchical",
    "post": "agents.post.agent:make",
}
