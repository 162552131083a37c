"""Synthetic graphs of any size, built in linear time; co-location merges few of their operators."""

from __future__ import annotations

import re
from math import prod

import numpy as np

from placement_gym.base import FloatArray, IntArray, UserError, round_significant
from placement_gym.graph.graph_builder import op_graph
from placement_gym.graph.operators import OpGraph

FAMILIES = ("synthetic-layered", "synthetic-series-parallel", "unrolled-lstm", "stacked-bert")
NAME = re.compile(rf"(?P<family>{'|'.join(FAMILIES)})-(?P<n>\d+)")
MAX_OPERATORS = 1_000_000
TWO_INPUTS_SHARE = 0.6
"""Share of operators with two inputs. Hand-tuned."""
LSTM_LAYERS = 8
LSTM_HIDDEN = 1024
TYPES = ("Convolution", "MatMul", "Add", "Relu", "Multiply")
TYPE_SHARES = (0.3, 0.2, 0.2, 0.2, 0.1)


def synthetic(name: str) -> OpGraph:
    """Build the graph of a name such as ``"synthetic-layered-80000"``, or raise ``UserError``."""
    match = NAME.fullmatch(name)
    if match is None:
        raise UserError(f"a synthetic model is one of {FAMILIES} and '-' and a size, not {name!r}")
    n = int(match["n"])
    if not 16 <= n <= MAX_OPERATORS:
        raise UserError(f"a synthetic model has 16 to {MAX_OPERATORS} operators, not {n}")
    if match["family"] == "stacked-bert":
        return stacked_bert(name, n)
    if match["family"] == "unrolled-lstm":
        return recurrent(name, n)
    rng = np.random.default_rng(n)
    draw_edges = layered if match["family"] == "synthetic-layered" else series_parallel
    return draw_work(name, *draw_edges(n, rng), rng)


def layered(n: int, rng: np.random.Generator) -> tuple[int, IntArray]:
    """Draw layers of about sqrt(n) operators; each reads one or two of the previous layer."""
    width = max(int(np.sqrt(n)), 2)
    targets = np.arange(width, n)
    begin = (targets // width - 1) * width
    first = begin + rng.integers(0, width, len(targets))
    second = begin + (first - begin + rng.integers(1, width, len(targets))) % width
    has_two = rng.random(len(targets)) < TWO_INPUTS_SHARE
    sources = np.concatenate([first, second[has_two]])
    return n, np.stack([sources, np.concatenate([targets, targets[has_two]])])


def series_parallel(n: int, rng: np.random.Generator) -> tuple[int, IntArray]:
    """Grow a graph from an edge by replacing random edges with two to four parallel paths."""
    edges, size = [(0, 1)], 2
    while size < n:
        at = int(rng.integers(len(edges)))
        source, target = edges[at]
        middles = range(size, size + int(rng.integers(2, 5)))
        paths = [edge for middle in middles for edge in ((source, middle), (middle, target))]
        edges[at] = paths[0]
        edges += paths[1:]
        size += len(middles)
    return size, renumber_topologically(size, np.array(edges).T)


def renumber_topologically(n: int, edges: IntArray) -> IntArray:
    """Renumber operators so that producers come first; return the edges."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges.T.tolist())
    rank = np.empty(n, dtype=np.int64)
    rank[np.fromiter(nx.topological_sort(graph), np.int64, n)] = np.arange(n)
    return rank[edges]


def draw_work(name: str, n: int, edges: IntArray, rng: np.random.Generator) -> OpGraph:
    """Draw types, work and sizes over several decades, as in real networks."""
    types = rng.choice(len(TYPES), n, p=TYPE_SHARES)
    heavy = types < 2
    size_bytes = draw_lognormal(rng, 2e5, 1.0, n).astype(np.int64)
    flops = np.where(heavy, draw_lognormal(rng, 5e7, 1.5, n), size_bytes / 4.0)
    weights = np.where(heavy, draw_lognormal(rng, 4e5, 1.5, n), 0.0).astype(np.int64)
    shapes = tuple((1, int(size) // 4) for size in size_bytes)
    kinds = tuple(TYPES[kind] for kind in types)
    return op_graph(name, edges, kinds, shapes, weights, flops, size_bytes)


def draw_lognormal(rng: np.random.Generator, median: float, sigma: float, n: int) -> FloatArray:
    """Draw (n,) numbers, rounded to be the same on all processors."""
    return round_significant(np.exp(rng.normal(np.log(median), sigma, n)), 6)


def recurrent(name: str, n: int) -> OpGraph:
    """Unroll LSTM layers over time: a cell reads its previous step and the layer below."""
    steps = max(n // LSTM_LAYERS, 2)
    cell = np.arange(steps * LSTM_LAYERS).reshape(steps, LSTM_LAYERS)
    previous = np.stack([cell[:-1].ravel(), cell[1:].ravel()])
    below = np.stack([cell[:, :-1].ravel(), cell[:, 1:].ravel()])
    edges = np.concatenate([previous, below], axis=1)
    weights = np.zeros(cell.size, dtype=np.int64)
    weights[:LSTM_LAYERS] = 8 * LSTM_HIDDEN**2 * 4
    flops = np.full(cell.size, 16.0 * LSTM_HIDDEN**2)
    size_bytes = np.full(cell.size, 4 * LSTM_HIDDEN)
    shapes = ((1, LSTM_HIDDEN),) * cell.size
    return op_graph(name, edges, ("LSTMCell",) * cell.size, shapes, weights, flops, size_bytes)


def stacked_bert(name: str, n: int) -> OpGraph:
    """Stack copies of the built-in bert-8, each of which reads the previous one's outputs."""
    from placement_gym.graph.extraction import extract
    from placement_gym.models import load_model

    block = extract(load_model("bert-8"), "folded")
    copies = max(n // len(block), 1)
    shift = np.arange(copies)[:, None] * len(block)
    ends = np.flatnonzero(block.out_degree() == 0)
    starts = np.flatnonzero(block.in_degree() == 0)
    between = np.array([(end, len(block) + start) for end in ends for start in starts]).T
    inside = (block.edge_index[:, None, :] + shift).reshape(2, -1)
    joints = (between[:, None, :] + shift[:-1]).reshape(2, -1)
    size_bytes = np.array([4 * prod(shape) for shape in block.shapes])
    return op_graph(
        name,
        np.concatenate([inside, joints], axis=1),
        block.types * copies,
        block.shapes * copies,
        np.tile(block.weight_bytes, copies),
        np.tile(block.flops, copies),
        np.tile(size_bytes, copies),
    )
