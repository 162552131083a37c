"""HSDAG: a policy that learns which units to place together, and where (NeurIPS 2024).

``numbers.csv`` has the numbers of both presets with their sources; a test compares it with them.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from agents.common import LearnedAgent, Preset, lacks_repair
from agents.hsdag.networks import HSDAGOptions
from agents.hsdag.policy import OPTIONS, HSDAGPolicy
from placement_gym.envs import DevicePlacementEnv

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
    "rl": Preset(
        OPTIONS["rl"],
        {"learning_rate": 1e-3, "n_steps": 1, "min_spread": 0.05, "max_grad_norm": inf},
        {"num_envs": 20, "horizon": 1, "reward": "log_speedup"},
        # short memory of gradients: a rollout says most of what the last ones did
        {"betas": (0.5, 0.999)},
    ),
}


def adapt(name: str, preset: Preset, env: DevicePlacementEnv) -> Preset:
    """Weaken the prior and enlarge steps where memory is scarce and nothing repairs placements."""
    # With a strong prior for fast devices whole groups go where there is no room: of 500 placements
    # none fits.
    if name != "rl" or not lacks_repair(env):
        return preset
    policy = replace(preset.policy, cost_weight=0.5)
    return replace(preset, policy=policy, algorithm={**preset.algorithm, "learning_rate": 3e-3})


make = LearnedAgent(HSDAGPolicy, PRESETS, adapt=adapt)
"""Makes REINFORCE with ``HSDAGPolicy``; see ``agents.common.make.LearnedAgent``."""
