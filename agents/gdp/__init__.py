"""GO: one network for many graphs, of any size (GDP, Zhou et al. 2019; GO, 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agents.common.make import SB3_ADAM, LearnedAgent, Preset
from agents.common.training import Trainer
from agents.gdp.policy import PAPER_FEATURES, GCNOptions, GCNPolicy, GOOptions, GOPolicy
from agents.gdp.ppo import UnitPPO

__all__ = [
    "GCNOptions",
    "GCNPolicy",
    "GOOptions",
    "GOPolicy",
    "UnitPPO",
    "make",
    "make_gcn",
    "make_reinforce",
    "make_trainer",
]

COMMON: dict[str, Any] = {"n_steps": 1, "max_grad_norm": 1.0}
PPO: dict[str, Any] = {"n_epochs": 4, "clip_range": 0.2}
PRESETS = {
    "rl": Preset(
        GOOptions(segment=256, memory=256),
        {**COMMON, **PPO, "learning_rate": 1e-3, "ent_coef": 0.003},
        {"num_envs": 20, "horizon": 1, "reward": "log_speedup"},
        SB3_ADAM,
    ),
    "paper": Preset(
        GOOptions(features=PAPER_FEATURES, devices=False),
        {**COMMON, **PPO, "learning_rate": 1e-4, "ent_coef": 0.01},
        # advantages are scaled, so that -sqrt(latency) is GO's -sqrt(latency / reference)
        {"num_envs": 20, "horizon": 1, "reward": "neg_sqrt_latency"},
        SB3_ADAM,
    ),
}
"""The README has the numbers with their sources. ``"paper"`` sees neither costs nor devices."""
make = LearnedAgent(GOPolicy, PRESETS, UnitPPO)
"""Makes ``UnitPPO`` with ``GOPolicy``; actions may decide priority and fusion, too."""

CONVOLUTIONS = replace(
    PRESETS["rl"],
    policy=GCNOptions(),
    algorithm={**PRESETS["rl"].algorithm, "learning_rate": 3e-3},
)
make_gcn = LearnedAgent(GCNPolicy, {"rl": CONVOLUTIONS}, UnitPPO)
"""Two graph convolutions with GO's PPO."""

PLAIN = replace(PRESETS["rl"], algorithm={**COMMON, "learning_rate": 1e-3, "ent_coef": 0.003})
make_reinforce = LearnedAgent(GOPolicy, {"rl": PLAIN})
"""GO with REINFORCE."""

make_trainer = Trainer(
    GOPolicy, {}, {"learning_rate": 3e-4, "ent_coef": 0.003, "max_grad_norm": 1.0}, UnitPPO
)
"""GO's PPO across problems; the network sees limits, times and links, and fits other devices."""
