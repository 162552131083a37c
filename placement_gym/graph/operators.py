"""Graph of a model's operators and the tensors between them."""

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
"""Types that HETERO places on the device of a neighbour."""
QUANTIZE = "FakeQuantize"
"""Type of nodes of quantised models that round to a few levels."""
WRITER, READER = "Assign", "ReadValue"
"""Types that write and read a state."""
BACKWARD = "Backward"
"""Type of operators of a backward pass in workloads of training."""


@dataclass(frozen=True, eq=False)
class Tensors:
    """Tensors that other operators read, in compressed sparse rows.

    Attributes:
        source: (n_tensors,) producing operator.
        port: (n_tensors,) output port of the producing IR node.
        size_bytes: (n_tensors,) bytes of a transfer.
        offsets: (n_tensors + 1,) first position of each tensor's readers in ``readers``.
        readers: (n_readings,) distinct reading operators, ascending for each tensor.
        held_bytes: (n_tensors,) bytes in memory; None if they are ``size_bytes``. They differ for
            upper bounds of dimensions and for requests of several inferences.
    """

    source: IntArray
    port: IntArray
    size_bytes: IntArray
    offsets: IntArray
    readers: IntArray
    held_bytes: IntArray | None = None

    @classmethod
    def one_each(cls, edges: IntArray, size_bytes: IntArray) -> Tensors:
        """Make one tensor of each operator that others read, from (2, n_edges) sorted edges."""
        sources, counts = np.unique(edges[0], return_counts=True)
        return cls(
            source=sources,
            port=np.zeros(len(sources), dtype=np.int64),
            size_bytes=size_bytes[sources],
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            readers=edges[1],
        )

    def readings(self) -> tuple[IntArray, IntArray]:
        """Return the tensor and the operator of each reading, (n_readings,) each."""
        return np.repeat(np.arange(len(self.source)), np.diff(self.offsets)), self.readers

    def read_by(self, tensor: IntArray, reader: IntArray, source: IntArray) -> Tensors:
        """Replace sources and readers, as after operators are merged.

        Drop repeated readings, readings by the source, and tensors without other readers.

        Args:
            tensor: (n_readings,) tensor of each reading.
            reader: (n_readings,) operator of each reading.
            source: (n_tensors,) new producer of each tensor.
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
    """A model inside an operator: a branch of an ``If`` or the body of a loop.

    Attributes:
        graph: Its operators.
        runs: Its runs in an inference that takes it; 1 if unknown.
        is_static: ``runs`` and all sizes are known without data.
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
        shapes: (n,) shape of the first output, in a request's first inference.
        element_types: (n,) element type of the first output, as in ``"f32"``.
        members: (n,) names of the IR nodes of each operator, with its own.
        weight_bytes: (n,) bytes of constants, and of the state after the last inference. A constant
            counts for each of its readers.
        flops: (n,) floating-point operations of a request, summed over its inferences.
        edge_index: (2, n_edges) distinct pairs of producer and consumer.
        tensors: Tensors between operators; their sizes are summed over inferences.
        inputs: (n_parameters,) readers of each Parameter.
        states: (n_states,) operators that access each state, which share a device.
        request: What is timed as one.
        phases: Pairs of a number of inferences and the graph of one of them, which make up the
            request; empty for a single inference.
        state_bytes: (n,) bytes of state in ``weight_bytes``; None without state.
        integers: (n,) whether operators read only rounded activations, so devices compute them in
            integers of eight bits; None if unknown.
        outputs: Operators that produce the model's outputs; empty if unknown.
        bodies: Operator -> its bodies, of which an inference runs one. ``weight_bytes`` counts all,
            ``flops`` all runs of the one with most work.
        models: Models of a union with their rates; names of operators begin with the model's.
            Empty for a single model.
        found: For each shape of the request, IR nodes whose sizes depend on data -> the sizes for
            the sample inputs, or none. They are not in the fingerprint.
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
        return sum(count for count, _ in self.phases) or 1.0

    def list_uncounted(self) -> list[str]:
        """List operators with a body, at any depth, of unknown runs or sizes."""
        return [
            self.names[operator]
            for operator, bodies in self.bodies.items()
            if not all(body.is_static and not body.graph.list_uncounted() for body in bodies)
        ]

    def find_deciding(self) -> dict[str, bool]:
        """Find operators where sizes begin to depend on data -> whether they found nothing."""
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
        """Return the (n,) ascending producers that each operator reads."""
        return list_targets(self.edge_index[::-1], len(self))

    def find_edges(self, source: IntArray, target: IntArray) -> IntArray:
        """Return the (n,) edges from sources to targets, which must exist."""
        keys = self.edge_index[0] * len(self) + self.edge_index[1]
        order = np.argsort(keys)
        return order[np.searchsorted(keys, source * len(self) + target, sorter=order)]

    @cached_property
    def model_of(self) -> IntArray:
        """(n,) model of each operator in a union; zeros for a single model."""
        index = {member.name: number for number, member in enumerate(self.models)}
        numbers = [index.get(name.partition("/")[0], 0) for name in self.names]
        return np.array(numbers, dtype=np.int64)

    @cached_property
    def rates(self) -> IntArray:
        """(n_models,) inferences of each model in a round."""
        return np.array([member.rate for member in self.models] or [1], dtype=np.int64)

    @cached_property
    def follows(self) -> BoolArray:
        """(n,) whether the type of each operator is in ``FOLLOWERS``."""
        return np.array([kind in FOLLOWERS for kind in self.types], dtype=np.bool_)

    @cached_property
    def movable(self) -> IntArray:
        """(n_movable,) tensors between operators that do not follow, which placements can move."""
        return np.unique(self.movable_readings[0])

    @cached_property
    def movable_tensors(self) -> Tensors:
        """Tensors of ``movable`` without readings by followers."""
        return self.tensors.read_by(*self.movable_readings, self.tensors.source)

    @cached_property
    def movable_readings(self) -> tuple[IntArray, IntArray]:
        """Tensor and operator of each reading between operators that do not follow."""
        tensor, reader = self.tensors.readings()
        moves = ~(self.follows[self.tensors.source[tensor]] | self.follows[reader])
        return tensor[moves], reader[moves]

    @property
    def stated_shapes(self) -> list[tuple[int | str, ...]]:
        """(n,) ``shapes``, or ``("?",)`` where they depend on data."""
        undecided = self.found[0] if self.found else {}
        return [
            ("?",) if name in undecided else shape
            for name, shape in zip(self.names, self.shapes, strict=True)
        ]

    def fingerprint(self, by_name: bool = True) -> str:
        """Compute sixteen hex digits of the operators, edges and request.

        With ``by_name=False`` operators are numbered: names may differ when a file is read again.
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
        # Names in bodies may differ when a file is read again.
        inside = [
            f"{names[operator]}:{body.runs}x{sorted(body.graph.types)}{body.graph.flops.sum()}"
            for operator, bodies in sorted(self.bodies.items())
            for body in bodies
        ]
        lines = [*rows, *edges, *self.request.list_lines(), *rated, *inside]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def distinct_edges(edges: IntArray) -> IntArray:
    """Sort (2, n) edges; drop loops and repetitions."""
    return np.unique(edges[:, edges[0] != edges[1]], axis=1)


def list_targets(edges: IntArray, n: int) -> list[list[int]]:
    """List the targets of each of n nodes, in the order of (2, n_edges) edges."""
    targets: list[list[int]] = [[] for _ in range(n)]
    for source, target in edges.T.tolist():
        targets[source].append(target)
    return targets
