"""A model as a graph of operators and the tensors between them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.models import FoundShapes, Member
from placement_gym.workloads import Inference, Request

FOLLOWERS = ("Constant", "Parameter", "Result")
"""Types that HETERO places itself: each goes to its neighbour's device."""
QUANTIZE = "FakeQuantize"
"""Type of nodes that round to a few levels, by which quantised models are known."""
WRITER, READER = "Assign", "ReadValue"
"""Types that access a state."""
BACKWARD = "Backward"
"""Type of the operators of a training workload's backward pass."""


@dataclass(frozen=True, eq=False)
class Tensors:
    """Tensors that at least one other operator reads, in compressed sparse rows.

    Attributes:
        source: (n_tensors,) operator that produces the tensor.
        port: (n_tensors,) output port of the producing IR node.
        size_bytes: (n_tensors,) bytes that a transfer of the tensor moves.
        offsets: (n_tensors + 1,) where each tensor's readers begin in ``readers``.
        readers: (n_readings,) distinct reading operators, ascending for each tensor.
        held_bytes: (n_tensors,) bytes that the tensor takes in memory where that is not
            ``size_bytes``: at the upper bounds of its dimensions, or once of several inferences.
    """

    source: IntArray
    port: IntArray
    size_bytes: IntArray
    offsets: IntArray
    readers: IntArray
    held_bytes: IntArray | None = None

    @classmethod
    def one_each(cls, edges: IntArray, size_bytes: IntArray) -> Tensors:
        """One tensor of each operator that others read, as (2, n_edges) sorted edges say.

        Args:
            edges: Distinct, sorted by source, then by target.
            size_bytes: (n_operators,) bytes of each operator's tensor.
        """
        sources, counts = np.unique(edges[0], return_counts=True)
        return cls(
            source=sources,
            port=np.zeros(len(sources), dtype=np.int64),
            size_bytes=size_bytes[sources],
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            readers=edges[1],
        )

    def readings(self) -> tuple[IntArray, IntArray]:
        """(n_readings,) tensor and (n_readings,) operator of every reading."""
        return np.repeat(np.arange(len(self.source)), np.diff(self.offsets)), self.readers

    def read_by(self, tensor: IntArray, reader: IntArray, source: IntArray) -> Tensors:
        """The same tensors with other sources and readers, for example after operators merge.

        Repeated readings count once and readings by a tensor's own source not at all; tensors
        without other readers are dropped.

        Args:
            tensor: (n_readings,) tensor of each reading.
            reader: (n_readings,) operator of each reading.
            source: (n_tensors,) operator that now produces each tensor.
        """
        foreign = source[tensor] != reader
        pairs = np.unique(np.stack([tensor[foreign], reader[foreign]]), axis=1)
        tensors, counts = np.unique(pairs[0], return_counts=True)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        held_bytes = None if self.held_bytes is None else self.held_bytes[tensors]
        return Tensors(
            source[tensors],
            self.port[tensors],
            self.size_bytes[tensors],
            offsets,
            pairs[1],
            held_bytes,
        )


@dataclass(frozen=True, eq=False)
class Body:
    """A model inside an operator: a branch of an ``If``, or what a loop repeats.

    Attributes:
        graph: Its operators.
        runs: How often the operator runs it in one inference, if it does; 1 if unknown.
        is_static: Whether that and all sizes are known without data.
    """

    graph: OpGraph
    runs: int = 1
    is_static: bool = True


@dataclass(frozen=True, eq=False)
class OpGraph:
    """Operators in topological order and the edges between them.

    Attributes:
        model: Name of the model.
        names: (n,) unique friendly names.
        types: (n,) OpenVINO type names.
        shapes: (n,) shape of the first output.
        element_types: (n,) element type of the first output, as in ``"f32"``.
        members: (n,) names of the IR nodes that each operator represents, its own included.
        weight_bytes: (n,) bytes of constants that the operator holds, and of state. A constant
            that several operators read counts for each of them.
        flops: (n,) floating-point operations of one request.
        edge_index: (2, n_edges) distinct producer and consumer pairs.
        tensors: Tensors that operators read from each other.
        inputs: (n_parameters,) operators that read each Parameter of the model.
        states: (n_states,) operators that access each state of the model, which share a device.
        request: What is timed as one. Of several inferences ``flops`` and the sizes of tensors
            are sums, shapes those of the first one, and ``weight_bytes`` includes the state that
            is held after the last one.
        phases: Pairs of a number of inferences and the graph of one such inference, which
            together are the request; empty for a single inference.
        state_bytes: (n,) bytes of ``weight_bytes`` that are state; None without state.
        integers: (n,) whether each operator reads rounded activations alone, and devices compute
            it in integers of eight bits; None where that is not known.
        outputs: Operators that make an output of the model; empty where that is not known.
        bodies: Operator -> its bodies, of operators that have some; each inference runs one of
            them. ``weight_bytes`` counts all, ``flops`` every run of the one with most work.
        models: Of a union of several models each one's name, with which the names of its operators
            begin, and how often it runs in a round; else empty.
        found: Of each shape of the request the IR nodes whose sizes the data decide, with those
            that were found on the sample inputs, or none. The fingerprint is without them.
    """

    model: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    element_types: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]
    weight_bytes: IntArray
    flops: FloatArray
    edge_index: IntArray
    tensors: Tensors
    inputs: tuple[tuple[int, ...], ...]
    states: tuple[tuple[int, ...], ...] = ()
    request: Request = field(default_factory=Inference)
    phases: tuple[tuple[float, OpGraph], ...] = ()
    state_bytes: IntArray | None = None
    integers: BoolArray | None = None
    outputs: tuple[int, ...] = ()
    bodies: Mapping[int, tuple[Body, ...]] = field(default_factory=dict)
    models: tuple[Member, ...] = ()
    found: tuple[FoundShapes, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_edges(self) -> int:
        return self.edge_index.shape[1]

    @property
    def n_inferences(self) -> float:
        """Inferences of a request."""
        return sum(count for count, _ in self.phases) or 1.0

    def list_uncounted(self) -> list[str]:
        """Names of operators with a body, or a body in it, whose runs or sizes are not known."""
        return [
            self.names[operator]
            for operator, bodies in self.bodies.items()
            if not all(body.is_static and not body.graph.list_uncounted() for body in bodies)
        ]

    def find_deciding(self) -> dict[str, bool]:
        """Each operator where sizes begin to depend on the data -> whether it found nothing."""
        of_data = self.found[0] if self.found else {}
        return {
            name: any(0 in shape for shape in of_data[name])
            for name, sources in zip(self.names, self.predecessors(), strict=True)
            if name in of_data and not any(self.names[source] in of_data for source in sources)
        }

    def in_degree(self) -> IntArray:
        return np.bincount(self.edge_index[1], minlength=len(self))

    def out_degree(self) -> IntArray:
        return np.bincount(self.edge_index[0], minlength=len(self))

    def predecessors(self) -> list[list[int]]:
        """(n,) ascending producers that each operator reads."""
        result: list[list[int]] = [[] for _ in range(len(self))]
        for source, target in self.edge_index.T.tolist():
            result[target].append(source)
        return result

    def find_edges(self, source: IntArray, target: IntArray) -> IntArray:
        """(n,) the edge between each pair of operators that one connects."""
        keys = self.edge_index[0] * len(self) + self.edge_index[1]
        order = np.argsort(keys)
        return order[np.searchsorted(keys, source * len(self) + target, sorter=order)]

    @cached_property
    def model_of(self) -> IntArray:
        """(n,) the model of a union that each operator belongs to; zeros for a single model."""
        index = {member.name: number for number, member in enumerate(self.models)}
        numbers = [index.get(name.partition("/")[0], 0) for name in self.names]
        return np.array(numbers, dtype=np.int64)

    @cached_property
    def rates(self) -> IntArray:
        """(n_models,) inferences of each model in a round; one for a single model."""
        return np.array([member.rate for member in self.models] or [1], dtype=np.int64)

    @cached_property
    def follows(self) -> BoolArray:
        """(n,) whether each operator is one of the ``FOLLOWERS``."""
        return np.array([kind in FOLLOWERS for kind in self.types], dtype=np.bool_)

    @cached_property
    def movable(self) -> IntArray:
        """(n_movable,) tensors between operators that do not follow: placements can move them."""
        return np.unique(self.movable_readings[0])

    @cached_property
    def movable_tensors(self) -> Tensors:
        """The tensors of ``movable``, without readings by followers."""
        return self.tensors.read_by(*self.movable_readings, self.tensors.source)

    @cached_property
    def movable_readings(self) -> tuple[IntArray, IntArray]:
        """Tensor and operator of every reading between operators that do not follow."""
        tensor, reader = self.tensors.readings()
        moves = ~(self.follows[self.tensors.source[tensor]] | self.follows[reader])
        return tensor[moves], reader[moves]

    @property
    def stated_shapes(self) -> list[tuple[int | str, ...]]:
        """(n,) ``shapes``; ``("?",)`` where they depend on the data."""
        undecided = self.found[0] if self.found else {}
        return [
            ("?",) if name in undecided else shape
            for name, shape in zip(self.names, self.shapes, strict=True)
        ]

    def fingerprint(self, by_name: bool = True) -> str:
        """Sixteen hex digits of names, types, shapes, weights, edges and what is measured.

        Args:
            by_name: Whether operators have their names in it; else their numbers, which are the
                same each time that a model is read.
        """
        names = self.names if by_name else tuple(map(str, range(len(self))))
        rows = sorted(
            repr(row)
            for row in zip(
                names,
                self.types,
                self.stated_shapes,
                self.element_types,
                self.members if by_name else map(len, self.members),
                self.weight_bytes.tolist(),
                strict=True,
            )
        )
        edges = sorted(f"{names[a]}>{names[b]}" for a, b in self.edge_index.T.tolist())
        rated = [f"{name}:{rate}" for name, rate in self.models if rate > 1]
        # Names in bodies may come from a counter, and differ each time that a file is read.
        inside = [
            f"{names[operator]}:{body.runs}x{sorted(body.graph.types)}{body.graph.flops.sum()}"
            for operator, bodies in sorted(self.bodies.items())
            for body in bodies
        ]
        lines = [*rows, *edges, *self.request.list_lines(), *rated, *inside]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def distinct_edges(edges: IntArray) -> IntArray:
    """Sort (2, n) edges and drop loops and repetitions."""
    return np.unique(edges[:, edges[0] != edges[1]], axis=1)
