"""HSDAG: a policy that learns which units to place together, and where (NeurIPS 2024).

``numbers.csv`` has the numbers of both presets with their sources; a test compares it with them.
"""

from __future__ import annotations

from math import inf

from agents.common import LearnedAgent, Preset, make_preset
from agents.hsdag.networks import HSDAGOptions
from agents.hsdag.policy import OPTIONS, HSDAGPolicy

__all__ = ["PRESETS", "HSDAGOptions", "HSDAGPolicy", "make"]

PRESETS: dict[str, Preset] = {
    "paper": Preset(
        OPTIONS["paper"],
        {
            "learning_rate": 1e-4,
            "n_steps": 20,
            "n_epochs": 4,
            "gamma": 0.95,
            "returns": "immediate",
            "baseline": "none",
            "normalize_advantage": False,
            "max_grad_norm": inf,
            "ent_coef": 0.0,
        },
        {"num_envs": 1, "horizon": 20, "reward": "inverse_latency"},
    ),
    # a strong preference for fast devices puts whole groups where there is no memory: of 500
    # placements none fits
    "rl": make_preset(OPTIONS["rl"], 1e-3, scarce={"cost_weight": 0.5, "learning_rate": 3e-3}),
}
make = LearnedAgent(HSDAGPolicy, PRESETS)
"""Makes REINFORCE with ``HSDAGPolicy``; see ``agents.common.make.LearnedAgent``."""
