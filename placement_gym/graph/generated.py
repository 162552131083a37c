"""Graphs that are generated from a name: families by size and seed, and synthetic graphs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from placement_gym.base import IntArray, UserError, suggest
from placement_gym.graph.families import (
    attention,
    branching,
    densely_connected,
    dilated,
    experts,
    recurrent,
    translation,
    u_shaped,
)
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.synthetic import NAME as SYNTHETIC
from placement_gym.graph.synthetic import (
    draw_lognormal,
    draw_work,
    layered,
    series_parallel,
    synthetic,
)

PREFIX = "family-"
NAME = re.compile(rf"{PREFIX}(?P<family>[a-z-]+)-(?P<n>\d+)-seed(?P<seed>\d+)")
MIN_OPERATORS, MAX_OPERATORS = 16, 100_000
MAX_SEED = 2**31 - 1

Build = Callable[[str, int, np.random.Generator], OpGraph]
DrawEdges = Callable[[int, np.random.Generator], tuple[int, IntArray]]


def with_drawn_work(draw_edges: DrawEdges) -> Build:
    """Make a family of drawn edges; its graphs differ by decades in arithmetic and weights."""

    def build(name: str, n: int, rng: np.random.Generator) -> OpGraph:
        graph = draw_work(name, *draw_edges(n, rng), rng)
        busier, larger = draw_lognormal(rng, 1.0, 1.0, 2)
        weights = (graph.weight_bytes * larger).astype(np.int64)
        return replace(graph, flops=graph.flops * busier, weight_bytes=weights)

    return build


FAMILIES: dict[str, Build] = {
    "layered": with_drawn_work(layered),
    "series-parallel": with_drawn_work(series_parallel),
    "recurrent": recurrent,
    "attention": attention,
    "u-shaped": u_shaped,
    "branching": branching,
    "experts": experts,
    "translation": translation,
    "dilated": dilated,
    "dense": densely_connected,
}


def build_generated(model: object) -> OpGraph | None:
    """Build the graph that a model argument names; None for other arguments."""
    if not isinstance(model, str):
        return None
    if model.startswith(PREFIX):
        return build_family(model)
    return synthetic(model) if SYNTHETIC.fullmatch(model) else None


def name_graph(family: str, n: int, seed: int) -> str:
    """Return the name of a graph, as in ``"family-attention-120-seed7"``."""
    return f"{PREFIX}{family}-{n}-seed{seed}"


@lru_cache(1)  # problems draw a graph by its size, then build it again by its name
def build_family(name: str) -> OpGraph:
    """Build the graph of a name, the same on every call, or raise ``UserError``."""
    match = NAME.fullmatch(name)
    if match is None or match["family"] not in FAMILIES:
        examples = [name_graph(family, 120, 7) for family in FAMILIES]
        raise UserError(
            "a generated model is 'family-NAME-SIZE-seedNUMBER', as in "
            f"'family-attention-120-seed7', with a name of {', '.join(sorted(FAMILIES))}, not "
            f"{name!r:.80}{suggest(name, examples)}"
        )
    n, seed = (int(match[key][:12]) for key in ("n", "seed"))
    if not MIN_OPERATORS <= n <= MAX_OPERATORS or seed > MAX_SEED:
        raise UserError(
            f"a generated model has {MIN_OPERATORS} to {MAX_OPERATORS} operators and a seed of "
            f"at most {MAX_SEED}, not {name!r:.80}"
        )
    return FAMILIES[match["family"]](name, n, np.random.default_rng([seed, n]))
