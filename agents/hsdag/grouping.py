"""Groups of one graph: parsed from edge scores, or sampled around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.common.graphs import GraphBatch
from agents.hsdag.edges import SPREAD, Choices, add_runs, choose_edges
from agents.hsdag.networks import Networks
from agents.hsdag.options import Options
from agents.hsdag.parsing import Partition, merge_alike, parse
from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.observation import FEATURES

ALL_LEVELS = 64
MAX_PLANES = 6
NOISE = 2.0
"""Noise on edge scores, in standard deviations of the scores."""


@dataclass(frozen=True, eq=False)
class Graph:
    """One graph of a batch.

    Attributes:
        nodes: Range of its nodes in the batch.
        edges: (2, e), nodes numbered within the graph.
        x: (n, N_FEATURES).
        allowed: (n, D) bool, allowed devices of each unit; None allows all.
        held: (n,) bytes of each unit, a share of the model's; zeros if unknown.
        limit: What every device can hold, infinite without a limit.
    """

    nodes: slice
    edges: Tensor
    x: Tensor
    allowed: BoolArray | None
    held: FloatArray
    limit: float

    @classmethod
    def of(cls, graphs: GraphBatch, row: int) -> Graph:
        """The graph of that index in the batch."""
        nodes, mask = graphs.nodes_of(row), graphs.action_mask
        allowed = None if mask is None else mask[nodes].cpu().numpy()
        held, limit = np.zeros(nodes.stop - nodes.start), np.inf
        if graphs.tables is not None:
            held = graphs.tables.unit_bytes[nodes].cpu().numpy()
            limit = float(graphs.tables.limits[row].min())
        return cls(nodes, graphs.edges_of(row), graphs.x[nodes], allowed, held, limit)


def choose_groups(
    networks: Networks, options: Options, graph: Graph, z: Tensor, sampling: bool
) -> tuple[IntArray, Tensor, Choices]:
    """Keep or cut edges by their scores; see ``edges.choose_edges``.

    Returns:
        (n,) group of each node, (2, k) kept edges, and what was chosen.
    """
    ends = add_runs(graph.edges, len(z)) if options.runs else graph.edges
    offset = SPREAD * float(torch.randn(())) if sampling else 0.0
    scores = networks.score_edges(z, ends).double().cpu().numpy() + offset
    rng = np.random.default_rng(int(torch.randint(2**31, ()))) if sampling else None
    chosen = choose_edges(
        ends.cpu().numpy(), scores, options.depth, graph.held, graph.limit, graph.allowed, rng
    )
    decided = ends[:, torch.from_numpy(chosen.decided)]
    kept = torch.from_numpy(chosen.kept).to(ends.device)
    return chosen.group, decided[:, kept], Choices(decided, kept, offset)


def parse_partition(networks: Networks, options: Options, graph: Graph, z: Tensor) -> Partition:
    """Parse groups from the edge scores of embeddings z (n, hidden)."""
    if not options.grouping or not options.depth:
        return separate_nodes(len(z))
    scores = networks.score_edges(z, graph.edges).cpu().numpy()
    ends = graph.edges.cpu().numpy()
    return parse(len(z), ends, scores, options.depth, options.min_groups, graph.allowed)


def sample_partition(networks: Networks, options: Options, graph: Graph, z: Tensor) -> Partition:
    """Sample groups of random coarseness, along perturbed scores.

    With independent noise per edge, groups are connected regions. With probability
    ``options.alike`` edges between similar nodes get equal noise, and groups of similar features
    are merged.
    """
    if not options.grouping:
        return separate_nodes(len(z))
    scores = networks.score_edges(z, graph.edges).cpu().numpy()
    merge = float(torch.rand(())) < options.alike
    noise = sample_shared_noise(z, graph.edges) if merge else sample_edge_noise(len(scores))
    scores = scale_to_unit_deviation(scores) + NOISE * scale_to_unit_deviation(noise)
    ends = graph.edges.cpu().numpy()
    n_groups = sample_log_uniform(options.min_groups, len(z))
    partition = parse(len(z), ends, scores, ALL_LEVELS, n_groups, graph.allowed)
    if not merge:
        return partition
    features = role_features(graph.x)
    n_planes = 1 + int(torch.randint(MAX_PLANES, ()))
    planes = torch.randn(features.shape[1], n_planes).numpy()
    return merge_alike(partition, features, planes, graph.allowed)


def separate_nodes(n: int) -> Partition:
    """The partition in which every node is a group of its own."""
    return Partition(np.arange(n), np.empty(0, dtype=np.int64))


def sample_edge_noise(n_edges: int) -> FloatArray:
    """(n_edges,) independent Gumbel noise."""
    return -np.log(torch.empty(n_edges).exponential_().numpy())


def sample_shared_noise(z: Tensor, edges: Tensor) -> FloatArray:
    """(n_edges,) noise that is equal for edges between nodes of equal embeddings."""
    direction = torch.randn(z.shape[1])
    return ((z[edges[0]] * z[edges[1]]).cpu() @ direction).numpy()


def scale_to_unit_deviation(values: FloatArray) -> FloatArray:
    """Divide by the standard deviation."""
    return values / (values.std() + 1e-6) if len(values) else values


def role_features(x: Tensor) -> NDArray[np.float32]:
    """(n, f) standardised features, without the position in the graph and constant ones."""
    features = np.delete(x.cpu().numpy(), np.r_[FEATURES["position"]], axis=1)
    deviation = features.std(axis=0)
    varied = deviation > 1e-6
    return (features - features.mean(axis=0))[:, varied] / deviation[varied]


def sample_log_uniform(minimum: int, maximum: int) -> int:
    """Sample an integer whose logarithm is uniform."""
    low, high = np.log(min(minimum, maximum)), np.log(maximum)
    return round(float(np.exp(low + float(torch.rand(())) * (high - low))))
