"""How the groups of one graph are made: parsed from scores, or drawn around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.common.graphs import GraphBatch
from agents.hsdag.networks import Networks
from agents.hsdag.options import Options
from agents.hsdag.parsing import Partition, alike, parse
from placement_gym.arrays import BoolArray, FloatArray
from placement_gym.observation import FEATURES

ALL_LEVELS = 64
MOST_PLANES = 6
NOISE = 2.0
"""Standard deviations of the scores by which they are perturbed."""


@dataclass(frozen=True, eq=False)
class Graph:
    """One graph of a batch.

    Attributes:
        nodes: Where its nodes are in the batch.
        edges: (2, e) between its own nodes.
        x: (n, N_FEATURES).
        allowed: (n, D) bool, where units may go; None allows everything.
    """

    nodes: slice
    edges: Tensor
    x: Tensor
    allowed: BoolArray | None

    @classmethod
    def of(cls, graphs: GraphBatch, row: int) -> Graph:
        """The graph with that number."""
        nodes, mask = graphs.nodes_of(row), graphs.action_mask
        allowed = None if mask is None else mask[nodes].cpu().numpy()
        return cls(nodes, graphs.edges_of(row), graphs.x[nodes], allowed)


def parsed(networks: Networks, options: Options, graph: Graph, z: Tensor) -> Partition:
    """The groups that embeddings z (n, hidden) speak for."""
    if not options.grouping or not options.depth:
        return alone(len(z))
    scores = networks.scores(z, graph.edges).cpu().numpy()
    ends = graph.edges.cpu().numpy()
    return parse(len(z), ends, scores, options.depth, options.min_groups, graph.allowed)


def drawn(networks: Networks, options: Options, graph: Graph, z: Tensor) -> Partition:
    """Groups as coarse as a draw says, along perturbed scores.

    Either each edge has noise of its own, and the groups are regions; or edges between like
    nodes have like noise, and groups that are alike then decide together.
    """
    if not options.grouping:
        return alone(len(z))
    scores = networks.scores(z, graph.edges).cpu().numpy()
    repeated = float(torch.rand(())) < options.alike
    noise = like_noise(z, graph.edges) if repeated else own_noise(len(scores))
    scores = scaled(scores) + NOISE * scaled(noise)
    ends, least = graph.edges.cpu().numpy(), drawn_between(options.min_groups, len(z))
    partition = parse(len(z), ends, scores, ALL_LEVELS, least, graph.allowed)
    if not repeated:
        return partition
    features = roles(graph.x)
    n_planes = 1 + int(torch.randint(MOST_PLANES, ()))
    planes = torch.randn(features.shape[1], n_planes).numpy()
    return alike(partition, features, planes, graph.allowed)


def alone(n: int) -> Partition:
    """Every node on its own."""
    return Partition(np.arange(n), np.empty(0, dtype=np.int64))


def own_noise(n_edges: int) -> FloatArray:
    """(n_edges,) Gumbel noise."""
    return -np.log(torch.empty(n_edges).exponential_().numpy())


def like_noise(z: Tensor, edges: Tensor) -> FloatArray:
    """(n_edges,) noise that is equal between nodes of equal embeddings."""
    direction = torch.randn(z.shape[1])
    return ((z[edges[0]] * z[edges[1]]).cpu() @ direction).numpy()


def scaled(values: FloatArray) -> FloatArray:
    """With a standard deviation of one."""
    return values / (values.std() + 1e-6) if len(values) else values


def roles(x: Tensor) -> NDArray[np.float32]:
    """(n, f) standardised features that say what a unit does, not where it is."""
    features = np.delete(x.cpu().numpy(), np.r_[FEATURES["position"]], axis=1)
    deviation = features.std(axis=0)
    varied = deviation > 1e-6
    return (features - features.mean(axis=0))[:, varied] / deviation[varied]


def drawn_between(least: int, most: int) -> int:
    """A number that is as likely between 2 and 4 as between 4 and 8."""
    low, high = np.log(min(least, most)), np.log(most)
    return round(float(np.exp(low + float(torch.rand(())) * (high - low))))
