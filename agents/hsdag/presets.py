"""The numbers and switches of HSDAG: as the paper has them, and ours.

The README's table gives the source of each; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

from agents.common.encoder import Conv
from agents.common.factory import Preset
from placement_gym.envs.observation import FEATURES

PAPER_FEATURES = ("type", "shape", "in_degree", "out_degree", "fractal_dimension", "position")
"""The six blocks of the paper's section 2.3."""
ALL_LEVELS = 64
"""Levels after which nothing is left to merge: each at least halves the groups that can."""


@dataclass(frozen=True)
class HSDAGOptions:
    """Options of ``HSDAGPolicy``, given as ``policy_kwargs``; saved models name them.

    Attributes:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES`` for the encoder.
        hidden: Width of an embedding.
        layers: Number of graph convolutions; 0 ignores the edges.
        conv: See ``agents.common.encoder.Encoder``: a name, or a class as ``SAGEConv``.
        directed: Whether messages from producers and from consumers have separate weights.
        dropout: Dropout while groups are parsed in rollouts; likelihoods are computed without it.
        depth: Levels of parsing; 0 makes every unit a group of its own.
        gate: Whether a group's embedding is gated by the mean score of its inner edges.
        groups: About how many groups the first placements have. In rollouts a dominant edge is
            then kept with a probability that its score raises, see ``SampledGroups``; 0 keeps all
            of them, as published.
        refine: Placements in which that number doubles; 0 leaves it to the scores.
        cost_weight: Initial weight of the logarithm of a group's time on a device in the logits,
            if the observation has costs; 0 leaves the term out.
    """

    features: tuple[str, ...] = PAPER_FEATURES
    hidden: int = 128
    layers: int = 2
    conv: Conv = "gcn"
    directed: bool = False
    dropout: float = 0.2
    depth: int = 1
    gate: bool = True
    groups: float = 0.0
    refine: float = 0.0
    cost_weight: float = 0.0


PAPER_TRAINING: dict[str, Any] = {
    "learning_rate": 1e-4,
    "n_steps": 20,
    "n_epochs": 4,
    "gamma": 0.95,
    "returns": "immediate",
    "baseline": "none",
    "normalize_advantage": False,
    "max_grad_norm": inf,
    "ent_coef": 0.0,
}
EPISODES: dict[str, Any] = {"num_envs": 1, "horizon": 20, "reward": "inverse_latency"}
PRESETS: dict[str, Preset] = {
    "paper": Preset(HSDAGOptions(), PAPER_TRAINING, EPISODES, {}),
    "rl": Preset(
        HSDAGOptions(
            features=tuple(FEATURES),
            directed=True,
            depth=ALL_LEVELS,
            groups=30.0,
            refine=200.0,
            cost_weight=2.0,
        ),
        {"learning_rate": 1e-3, "n_steps": 1, "min_spread": 0.05, "max_grad_norm": inf},
        {"num_envs": 20, "horizon": 1, "reward": "log_speedup"},
        {"betas": (0.5, 0.999)},
    ),
}
SCARCE = replace(
    PRESETS["rl"],
    policy=replace(PRESETS["rl"].policy, cost_weight=0.5),
    algorithm={**PRESETS["rl"].algorithm, "learning_rate": 3e-3},
)
"""``"rl"`` where memory is scarce and nothing repairs placements: with its strong prior for fast
devices, whole groups go where there is no room, and none of 500 placements fits.
"""
