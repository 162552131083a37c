"""GO's networks in the order of the paper: GraphSAGE (2.2), modulated attention, devices (2.3)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import linear, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from agents.common import MAX_ENTRIES, MIN_COST, GraphBatch
from placement_gym.base import UserError, check_integer
from placement_gym.envs import FEATURES

SPARSE_ON = "cpu"
"""Type of device on which PyTorch has maxima over sparse rows, twice as fast as over segments."""
WIDENING = 2
"""Width of the layer between attentions, in widths of an embedding."""
SEGMENTS_AT_ONCE = 16
"""Segments that a layer computes at once. Hand-tuned: their activations fit in a cache."""
UNIT_COLUMNS, UNIT_DEVICE_COLUMNS, DEVICE_COLUMNS = 2, 4, 7
MAX_EQUAL_DEVICES = 16
"""Number of equal devices that the network distinguishes, at most. Hand-tuned."""
MAX_LIMIT_SHARE = 4.0
"""Bytes of a unit as a share of a device's limit, at most. Hand-tuned: limits may be tiny."""
PAPER_FEATURES = ("type", "shape", "in_degree", "out_degree")
OWN_FEATURES = tuple(name for name in FEATURES if name != "cost")
"""All but costs, whose number of columns depends on the devices; ``DeviceHead`` reads times."""


@dataclass(frozen=True)
class GOOptions:
    """Options of ``GOPolicy``; saved models name them.

    Attributes:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES``.
        devices: Whether the network reads times, limits and links of the devices, by which it fits
            any number of them; needs ``graph_table(devices=True)`` or ``observe_devices=True``.
            False has one output for each device, as published.
        hidden: Width of embeddings, a multiple of ``heads``.
        rounds: Rounds of GraphSAGE.
        layers: Layers of attention.
        heads: Heads of attention.
        segment: Units of a segment.
        memory: Number of units before a segment that it reads, at least one.
    """

    features: Sequence[str] = OWN_FEATURES
    devices: bool = True
    hidden: int = 128
    rounds: int = 3
    layers: int = 2
    heads: int = 4
    segment: int = 512
    memory: int = 512

    def __post_init__(self) -> None:
        check_integer("heads", self.heads, 1)
        check_integer("hidden", self.hidden, 1)
        if self.hidden % self.heads:
            raise UserError(f"hidden must be a multiple of heads, {self.heads}, not {self.hidden}")


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Producers and consumers of all nodes; those of node i are ``nodes[ptr[i]:ptr[i + 1]]``."""

    nodes: Tensor  # (at most 2 e,)
    ptr: Tensor  # (n + 1,)

    @classmethod
    def from_edges(cls, ends: Tensor, n: int) -> Neighbours:
        """The distinct neighbours of n nodes along (2, e) edges, in ascending order."""
        near, node = torch.cat([ends, ends.flip(0)], dim=1)
        pairs = torch.unique(node * n + near)
        counts = torch.bincount(pairs // n, minlength=n)
        return cls(pairs % n, torch.cat([counts.new_zeros(1), counts.cumsum(0)]))

    @cached_property
    def matrix(self) -> Tensor:
        """(n, n) ones where nodes are neighbours, sparse by rows."""
        n = len(self.ptr) - 1
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            ones = torch.ones(len(self.nodes), device=self.nodes.device)
            return torch.sparse_csr_tensor(
                self.ptr, self.nodes, ones, (n, n), check_invariants=True
            )


@lru_cache(maxsize=MAX_ENTRIES)
def find_neighbours(graphs: GraphBatch) -> Neighbours:
    return Neighbours.from_edges(graphs.edge_index, len(graphs.x))


class GraphSAGE(nn.Module):
    """Embeds units: h_N(v) = max over neighbours u of sigmoid(W h_u + b), h_v = f(h_v, h_N(v)).

    Aggregation of Hamilton et al. 2017 (GO, 2.2). Deviation: residuals and LayerNorm.
    """

    def __init__(self, width: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.enter = nn.Linear(width, hidden)
        self.messages = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.merges = nn.ModuleList(nn.Linear(2 * hidden, hidden) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))

    def forward(self, x: Tensor, neighbours: Neighbours) -> Tensor:
        """(n, hidden) embeddings, from (n, width) features."""
        h = self.enter(x).relu()
        for message, merge, norm in zip(self.messages, self.merges, self.norms, strict=True):
            largest = take_largest(message(h).sigmoid(), neighbours)
            h = norm(h + merge(torch.cat([h, largest], dim=1)).relu())
        return h


def take_largest(sent: Tensor, neighbours: Neighbours) -> Tensor:
    """(n, hidden) maximum of the neighbours' (n, hidden) positive messages, 0 without any."""
    if sent.device.type == SPARSE_ON:
        return torch.sparse.mm(neighbours.matrix, sent, "amax")
    received = sent.index_select(0, neighbours.nodes)
    return torch.segment_reduce(received, "max", offsets=neighbours.ptr, unsafe=True, initial=0.0)


class ModulatedLinear(nn.Module):
    """A dense layer whose input is multiplied by a vector that depends on the whole graph.

    One network then fits different graphs (superposition, Cheung et al. 2019).
    """

    def __init__(self, width: int, out: int, context: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, out)
        self.gate = nn.Linear(context, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """(..., out) from (..., width) inputs and the (context,) embedding of their graph."""
        return linear(x, *self.fold(context))

    def fold(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """(out, width) weight, multiplied by the vector, and (out,) bias of the dense layer."""
        return self.dense.weight * (1.0 + self.gate(context).tanh()), self.dense.bias


class Attention(nn.Module):
    """One layer: segments attend to themselves and to the units before, then a dense part."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = ModulatedLinear(width, width, context)
        self.pair = ModulatedLinear(width, 2 * width, context)
        self.out = ModulatedLinear(width, width, context)
        self.inner = ModulatedLinear(width, WIDENING * width, context)
        self.outer = ModulatedLinear(WIDENING * width, width, context)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor, before: Tensor, context: Tensor, segments: int = 1) -> Tensor:
        """(..., k * s, width) from the units of k segments of s.

        Args:
            x: The units.
            before: (..., m, width) units before them. A segment reads itself and the m units before
                it, without gradient there.
            context: (context,) embedding of the graph.
            segments: Number of segments, k.
        """
        size = x.shape[-2] // segments
        key, value = self.read(x, before, context, size).chunk(2, dim=-1)
        query = self.query(x, context).reshape(*x.shape[:-2], segments, size, -1)
        read = scaled_dot_product_attention(self.split(query), self.split(key), self.split(value))
        together = read.transpose(1, 2).reshape(x.shape)
        x = self.norms[0](x + self.out(together, context))
        normed: Tensor = self.norms[1](x + self.outer(self.inner(x, context).relu(), context))
        return normed

    def read(self, x: Tensor, before: Tensor, context: Tensor, size: int) -> Tensor:
        """(..., k, m + size, 2 * width) keys and values that each of k segments reads."""
        # keys and values of a unit are computed once for its own segment and for later ones, where
        # they have a gradient for the weights, but not for the unit
        memory = before.shape[-2]
        rows = torch.cat([before, x], dim=-2)
        weight, bias = self.pair.fold(context)
        pairs = linear(rows, weight, bias)
        earlier = rows[..., :-size, :].detach(), pairs[..., :-size, :].detach()
        remembered: Tensor = KnownDenseOutput.apply(*earlier, weight, bias)  # type: ignore[no-untyped-call]
        windows = remembered.unfold(-2, memory, size).transpose(-1, -2)
        own = pairs[..., memory:, :].reshape(*windows.shape[:-2], size, -1)
        return torch.cat([windows, own], dim=-2)

    def split(self, x: Tensor) -> Tensor:
        """(B, heads, s, width / heads) from (..., s, width)."""
        return x.reshape(-1, x.shape[-2], self.heads, x.shape[-1] // self.heads).transpose(1, 2)


class KnownDenseOutput(Function):
    """The known x @ weight.T + bias of a dense layer, with a gradient for its weights alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, output: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor, Tensor]:
        (x,) = ctx.saved_tensors
        grad = grads[0].flatten(0, -2)
        return None, None, grad.T @ x.flatten(0, -2), grad.sum(dim=0)


class SegmentAttention(nn.Module):
    """Transformer-XL over the units in topological order, without positions (GO, 2.3).

    Every layer of a segment reads the input of that layer in the segment and, without a gradient,
    in the ``memory`` units before it. The segments of a layer do not wait for each other:
    ``SEGMENTS_AT_ONCE`` are computed together.
    """

    def __init__(self, options: GOOptions, layers: int) -> None:
        super().__init__()
        self.segment, self.memory, width = options.segment, options.memory, options.hidden
        self.layers = nn.ModuleList(Attention(width, options.heads, width) for _ in range(layers))

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """(..., n, width) from (..., n, width) units of one graph in topological order."""
        counts = self.count_together(x.shape[-2])
        # the backward pass recomputes activations, and keeps those of some segments at a time
        again = len(counts) > 1 and torch.is_grad_enabled()
        for layer in self.layers:
            run = partial(checkpoint, layer, use_reentrant=False, preserve_rng_state=False)
            x = self.apply_layer(run if again else layer, x, context, counts)
        return x

    def apply_layer(self, run: Any, x: Tensor, context: Tensor, counts: list[int]) -> Tensor:
        """(..., n, width) from (..., n, width), some segments at a time."""
        fixed, first, done = x.detach(), 0, []
        sizes = [count * self.segment for count in counts[:-1]]
        parts = torch.split(x, [*sizes, x.shape[-2] - sum(sizes)], dim=-2)
        for part, count in zip(parts, counts, strict=True):
            before = fixed[..., max(first - self.memory, 0) : first, :]
            done.append(run(part, before, context, count))
            first += part.shape[-2]
        return torch.cat(done, dim=-2)

    def count_together(self, n: int) -> list[int]:
        """The numbers of segments that are computed together, for n units.

        These have one size and a whole memory before them.
        """
        whole, rest = divmod(n, self.segment)
        early = min(-(-self.memory // self.segment), whole)
        full, left = divmod(whole - early, SEGMENTS_AT_ONCE)
        return [1] * early + [SEGMENTS_AT_ONCE] * full + [left] * (left > 0) + [1] * (rest > 0)


class DeviceHead(nn.Module):
    """Scores units on any number of devices; the order of different ones does not matter.

    Deviation: the published network reads no devices, and has an output for each. Equal devices are
    distinguished by their rank: with equal logits, units could not gather on one of them.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.of_unit = nn.Linear(width, hidden)
        self.of_device = nn.Linear(DEVICE_COLUMNS, hidden)
        self.of_pair = nn.Linear(UNIT_DEVICE_COLUMNS, hidden)
        self.of_rank = nn.Embedding(MAX_EQUAL_DEVICES, hidden)
        self.score = nn.Linear(hidden, 1)

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        """(n, D) logits from (n, width) embeddings."""
        each = describe_each_device(graphs)
        device = (self.of_device(each) + self.of_rank(rank_among_equals(each)))[graphs.batch]
        both = self.of_pair(compute_unit_device_columns(graphs))
        logits: Tensor = self.score((self.of_unit(h)[:, None] + device + both).relu())
        return logits[..., 0]


def present_devices(graphs: GraphBatch) -> Tensor:
    """(G, D) bool, False for padding, which has only zeros."""
    return graphs.device_tables.devices.bool().any(dim=2)


def describe_units(graphs: GraphBatch) -> Tensor:
    """(n, 2) logarithms of each unit's bytes, in mean units, and of its mean time."""
    tables, present = graphs.device_tables, present_devices(graphs)[graphs.batch]
    counts = torch.bincount(graphs.batch)[graphs.batch]
    size = (tables.unit_bytes * counts).clamp(max=100.0).log1p().float()
    mean = (tables.unit_ms * present).sum(dim=1) / present.sum(dim=1)
    return torch.stack([size, (mean + MIN_COST).log()], dim=1)


def compute_unit_device_columns(graphs: GraphBatch) -> Tensor:
    """(n, D, 4) columns of each unit and device.

    These are the logarithm of the time; its difference from that of the fastest device; bytes
    divided by the device's limit; and the share of the model that does not fit there.
    """
    tables, padded = graphs.device_tables, ~present_devices(graphs)[graphs.batch]
    times = (tables.unit_ms + MIN_COST).log()
    fastest = times.masked_fill(padded, torch.inf).amin(dim=1, keepdim=True)
    limit = tables.devices[..., 0].clamp(min=1e-6)[graphs.batch]
    share = (tables.unit_bytes[:, None].float() / limit).clamp(max=MAX_LIMIT_SHARE)
    columns = torch.stack([times, times - fastest, share, 1.0 - limit], dim=2)
    return columns.masked_fill(padded[..., None], 0.0)


def describe_each_device(graphs: GraphBatch) -> Tensor:
    """(G, D, 7) columns of each device: ``device_table.DEVICE_FEATURES``, and its mean links."""
    tables = graphs.device_tables
    count = (present_devices(graphs).sum(dim=1) - 1).clamp(min=1)[:, None, None]
    links = tables.links.sum(dim=2) / count
    return torch.cat([tables.devices, links], dim=2).clamp(max=100.0).log1p()


def rank_among_equals(devices: Tensor) -> Tensor:
    """(G, D) numbers of devices before each that have equal (G, D, F) columns."""
    same = (devices[:, :, None] == devices[:, None]).all(dim=3)
    return same.tril(diagonal=-1).sum(dim=2).clamp(max=MAX_EQUAL_DEVICES - 1)
