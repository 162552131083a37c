"""Options of HSDAG's policy, and its presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agents.common.encoder import Conv
from placement_gym.errors import UserError, unknown_name
from placement_gym.observation import FEATURES

PAPER_FEATURES = (
    "type",
    "shape",
    "in_degree",
    "out_degree",
    "fractal_dimension",
    "position",
)
"""The six blocks of the paper's section 2.3."""


@dataclass(frozen=True)
class Options:
    """Options of ``HSDAGPolicy``, given as ``policy_kwargs``; saved models name them.

    Attributes:
        features: Names of blocks in ``placement_gym.observation.FEATURES`` for the encoder.
        hidden: Width of an embedding.
        layers: Number of graph convolutions; 0 ignores the edges.
        conv: See ``agents.common.encoder.Encoder``: a name, or a class as ``SAGEConv``.
        directed: Whether messages from producers and from consumers have separate weights.
        dropout: Dropout while groups are made; likelihoods are computed without it.
        grouping: False makes every unit a group of its own.
        depth: Levels of parsing; 0 makes every unit a group of its own where groups are parsed.
        min_groups: Minimum number of groups.
        draw_groups: Whether rollouts sample how coarse their groups are, from single units to
            ``min_groups``, along perturbed scores; False parses groups in rollouts too.
            Prediction always parses.
        alike: Probability that a sampled grouping merges groups of similar features, wherever
            they are in the graph.
        flips: Expected number of groups per sampled placement that take a uniformly random
            device: a minimum of exploration.
        greedy_first: Whether the first of several placements of a rollout is the deterministic
            prediction. It is credited to the groups' leaders.
        cost_weight: Initial weight of the log of a group's time on a device in the logits, if the
            observation has costs; 0 leaves the term out.
        joint_costs: See ``agents.common.encoder.Encoder``.
        devices: Whether encoder and placer read times, limits and transfers of devices on one
            scale, see ``agents.common.pairs``.
        room: Whether groups go only where there is room left, one after another.
        choose_edges: Whether every dominant edge is kept or cut by its score alone, in rollouts
            with the probability that its sigmoid says, in prediction if it is above a half. The
            model finds the number of groups by that, its likelihood counts with that of the
            devices, and the placements of a rollout have groups of their own, up to 16 of them. It
            takes the place of ``draw_groups``, ``min_groups`` and ``alike``.
        gate: Whether a group's pooled embedding is gated by the mean score of its kept edges.
        moves: Share of the placements of a rollout that move groups of the best placement so far
            instead, see ``agents.common.group_moves``.
        runs: Whether neighbours in topological order may be joined, too, with ``choose_edges``.
    """

    features: tuple[str, ...] = tuple(FEATURES)
    hidden: int = 128
    layers: int = 2
    conv: Conv = "gcn"
    directed: bool = True
    dropout: float = 0.0
    grouping: bool = True
    depth: int = 0
    min_groups: int = 2
    draw_groups: bool = True
    alike: float = 0.0
    flips: float = 0.0
    greedy_first: bool = False
    cost_weight: float = 2.0
    joint_costs: bool = False
    devices: bool = False
    room: bool = False
    choose_edges: bool = False
    gate: bool = True
    runs: bool = False
    moves: float = 0.0


PRESETS = {
    "default": Options(),
    "search": Options(alike=0.3, flips=2.0, greedy_first=True),
    "hsdag": Options(
        depth=16,
        flips=2.0,
        greedy_first=True,
        devices=True,
        choose_edges=True,
        runs=True,
        moves=0.9,
    ),
    "paper": Options(
        features=PAPER_FEATURES,
        directed=False,
        dropout=0.2,
        depth=1,
        min_groups=1,
        draw_groups=False,
        cost_weight=0.0,
    ),
}
"""``"hsdag"`` parses in rollouts and in prediction, and learns how; ``"search"`` is the default
with exploration for budgets of a few hundred placements."""


def make_options(preset: str, changes: Mapping[str, Any]) -> Options:
    """Make the options of a preset, with changes.

    Raises:
        UserError: Unknown preset, or edges are chosen without groups.
    """
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    options = replace(PRESETS[preset], **changes)
    if options.choose_edges and not options.grouping:
        raise UserError("grouping=False leaves no edges to choose: give choose_edges=False, too")
    return options
