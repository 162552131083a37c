"""Layers and edges of a graph of units, as every picture of the documents draws them."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection

from placement_gym.view.figures import WITHIN
from placement_gym.view.figures.style import CROSSING

mpl.rcParams |= {"svg.hashsalt": "placement_gym", "font.size": 9, "font.family": "DejaVu Sans"}


def spread_layers(layer: Any) -> Any:
    """(n,) position among the units of the same layer, centred on zero."""
    position = np.zeros(len(layer))
    for number in np.unique(layer):
        here = np.flatnonzero(layer == number)
        position[here] = np.arange(len(here)) - (len(here) - 1) / 2
    return position


def draw_edges(edges: Any, across: Any, down: Any, assignment: Any) -> LineCollection:
    """Lines to the next unit, and arcs past units in between; those that cross on top."""
    edges = edges[:, np.argsort(assignment[edges[0]] != assignment[edges[1]], kind="stable")]
    source, target = edges
    steps = (across[target] - across[source])[:, None]
    along = np.linspace(0.0, 1.0, 15)
    sag = np.where(steps > 1, np.minimum(0.15 * steps, 0.6), 0.0)
    x = across[source][:, None] + steps * along
    y = down[source][:, None] + (down[target] - down[source])[:, None] * along
    y -= 4.0 * sag * along * (1.0 - along)
    crossing = assignment[source] != assignment[target]
    colours = np.where(crossing, CROSSING, WITHIN).tolist()
    return LineCollection(list(np.stack([x, y], axis=2)), colors=colours, linewidths=0.8, zorder=1)
