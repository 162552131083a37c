"""What can be set of HSDAG's policy, and the two presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from placement_gym.errors import UserError
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
    """Of ``HSDAGPolicy``, as ``policy_kwargs``; the README says which are the paper's.

    Attributes:
        features: Blocks of ``placement_gym.observation.FEATURES`` that the encoder reads.
        hidden: Width of an embedding.
        layers: Graph convolutions; 0 does without the graph.
        conv: ``"gcn"``, ``"gat"`` or ``"gin"``.
        directed: Whether producers and consumers have weights of their own.
        dropout: While groups are drawn; the likelihood knows none.
        grouping: False places every unit alone.
        depth: Levels of parsing; 0 leaves every unit alone.
        min_groups: Groups there are at least.
        draw_groups: Whether roll-outs draw how coarse their groups are, from every unit alone to
            ``min_groups``, and perturb the scores; deterministic prediction never does.
        alike: Share of the drawn groupings in which groups of like features decide together,
            wherever in the graph they are.
        flips: Groups of a sampled placement that are expected to take any device at all: the
            least exploration, however sure the policy is.
        greedy_first: Whether the first of several placements of a roll-out is the one that
            prediction would give. It is credited to the groups' leaders.
        cost_weight: How much the logarithm of a device's time for a group counts against it
            before anything is learned, where the observation has costs; 0 does without.
    """

    features: tuple[str, ...] = tuple(FEATURES)
    hidden: int = 128
    layers: int = 2
    conv: str = "gcn"
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


PRESETS = {
    "default": Options(),
    "search": Options(alike=0.3, flips=2.0, greedy_first=True),
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
"""``"search"`` is the default with the exploration that a few hundred placements ask for."""


def options(preset: str, changes: Mapping[str, Any]) -> Options:
    """A preset with changes.

    Raises:
        ValueError: No such preset.
        TypeError: No such option.
    """
    if preset not in PRESETS:
        raise UserError(f"preset must be one of {sorted(PRESETS)}, not {preset!r}")
    known = {field.name for field in fields(Options)}
    unknown = sorted(set(changes) - known)
    if unknown:
        raise TypeError(f"HSDAGPolicy has no option {unknown}; it has {sorted(known)}")
    return replace(PRESETS[preset], **changes)
