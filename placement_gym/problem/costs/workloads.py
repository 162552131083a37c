"""Published placement workloads: the JSON files of dnn-partitioning (Tarnawski et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray, UserError
from placement_gym.base.schemas import WorkloadFields, check, load_valid
from placement_gym.graph import (
    BACKWARD,
    OpGraph,
    Tensors,
    Units,
    contract,
    merge_cycles,
    sort_labels,
)
from placement_gym.hardware import ACCELERATOR, DeviceSpec, make_devices
from placement_gym.problem.costs.analytic import check_kind
from placement_gym.problem.costs.cost_graph import CostGraph
from placement_gym.problem.costs.table import CostTable

SCALES = {"published": 1.0, "published-x1000": 1000.0}
"""Source of costs -> factor of transfers; see ``Workload.costs``."""


@dataclass(frozen=True, eq=False)
class Workload:
    """A published graph with its costs on a CPU core and on an accelerator.

    Attributes:
        graph: Nodes in topological order, named by their ids, with types ``"Forward"`` and
            ``"Backward"``.
        colours: (n,) colour class of each node.
        host_ms: (n,) time on a CPU core, ``cpuLatency``.
        accelerator_ms: (n,) time on an accelerator, ``fpgaLatency``.
        supported: (n,) bool, whether an accelerator runs the node.
        transfer_ms: (n_tensors,) time between an accelerator and the host's memory.
        n_accelerators: Published number of accelerators.
        accelerator_bytes: Memory of one accelerator.
    """

    sources: ClassVar = tuple(SCALES)
    """Names of costs that environments accept."""

    graph: OpGraph
    colours: IntArray
    host_ms: FloatArray
    accelerator_ms: FloatArray
    supported: BoolArray
    transfer_ms: FloatArray
    n_accelerators: int
    accelerator_bytes: int

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        """Read a file in the publication's format.

        Raises:
            UserError: A field is missing or invalid, or the graph is not acyclic.
        """
        kind = "a valid dnn-partitioning workload file"
        return load_valid(path, partial(cls.from_dict, name=Path(path).stem), kind)

    @classmethod
    def from_dict(cls, values: Any, name: str) -> Workload:
        """Make a workload from the contents of a file."""
        fields = check(WorkloadFields, values)
        order, edges, costs = sort_nodes(fields)
        nodes = {node.id: node for node in fields.nodes}
        rows = [nodes[key] for key in order]
        size_bytes = {edge.source: int(edge.size_bytes) for edge in fields.edges}
        sizes = np.array([size_bytes.get(key, 0) for key in order], dtype=np.int64)
        tensors = Tensors.one_each(edges, sizes)
        graph = OpGraph(
            model=name,
            names=tuple(str(key) for key in order),
            types=tuple(BACKWARD if row.backward else "Forward" for row in rows),
            shapes=((),) * len(order),
            element_types=("",) * len(order),
            members=tuple((str(key),) for key in order),
            weight_bytes=np.array([int(row.size_bytes) for row in rows], dtype=np.int64),
            flops=np.zeros(len(order)),
            edge_index=edges,
            tensors=tensors,
            inputs=(),
        )
        return cls(
            graph=graph,
            colours=colour_classes([row.colour for row in rows]),
            host_ms=np.array([row.host_ms for row in rows], dtype=np.float64),
            accelerator_ms=np.array([row.accelerator_ms for row in rows], dtype=np.float64),
            supported=np.array([bool(row.supported) for row in rows]),
            transfer_ms=np.array([costs[order[s]] for s in tensors.source], dtype=np.float64),
            n_accelerators=fields.n_accelerators,
            accelerator_bytes=int(fields.accelerator_bytes),
        )

    def units(self, granularity: str = "colocated") -> Units:
        """Group nodes by colour class, or not at all with ``"op"``, which the paper does not allow.

        Units are sorted topologically, or if colour classes form a cycle by their first nodes.
        """
        if granularity not in ("colocated", "op"):
            raise UserError(f"a workload's granularity is 'colocated' or 'op', not {granularity!r}")
        labels = np.arange(len(self.graph)) if granularity == "op" else self.colours
        if len(np.unique(merge_cycles(self.graph, labels))) == len(np.unique(labels)):
            labels = sort_labels(self.graph, labels)
        return Units(granularity, self.graph, labels, contract(self.graph, labels))

    @cached_property
    def devices(self) -> tuple[DeviceSpec, ...]:
        """One CPU without a memory limit, and the published accelerators with theirs."""
        return make_devices(1, self.n_accelerators, memory_bytes=self.accelerator_bytes)

    def costs(self, devices: Sequence[DeviceSpec], source: str = "published") -> CostTable:
        """Make a cost table of the published times; every device but a CPU is an accelerator.

        With ``source="published-x1000"`` transfers take a thousand times longer, as the throughput
        files of layer graphs seem to state seconds.
        """
        if source not in SCALES:
            raise UserError(f"a workload's costs must be one of {sorted(SCALES)}, not {source!r}")
        for device in devices:
            check_kind(device, (ACCELERATOR,))
        host = np.array([device.host for device in devices])
        # A transfer between accelerators passes through the host and costs both ways.
        ways = (~host).astype(float)
        off_diagonal = ~np.eye(len(devices), dtype=bool)
        return CostTable(
            source=source,
            graph=self.graph.fingerprint(),
            operators=self.graph.names,
            devices=tuple(device.name for device in devices),
            operator_ms=np.where(host, self.host_ms[:, None], self.accelerator_ms[:, None]),
            supported=host | self.supported[:, None],
            memory_bytes=self.graph.weight_bytes,
            transfer_size=self.transfer_ms * SCALES[source],
            transfer_unit="ms",
            link_ms=np.zeros((len(devices), len(devices))),
            link_ms_per_size=(ways[:, None] + ways) * off_diagonal,
            submodel_ms=np.zeros(len(devices)),
            host=host,
        )


def load_workload(model: Any) -> Workload | CostGraph:
    """Read the workload or cost graph of a ``model`` argument, which may be a file.

    Raises:
        UserError: The file cannot be read, or is neither a workload nor a cost graph.
    """
    if isinstance(model, CostGraph):
        return model

    def parse(values: Any) -> Workload | CostGraph:
        own = isinstance(values, Mapping) and "ms" in values
        return CostGraph.from_json(values) if own else Workload.from_dict(values, Path(model).stem)

    return load_valid(model, parse, "a valid file of a dnn-partitioning workload or a cost graph")


def sort_nodes(fields: WorkloadFields) -> tuple[list[int], IntArray, dict[int, float]]:
    """Sort nodes topologically; return their ids, (2, n_edges) indices, and each source's cost."""
    # The lexicographic order does not depend on the order of the file's entries.
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(node.id for node in fields.nodes))
    costs: dict[int, float] = {}
    for edge in fields.edges:
        graph.add_edge(edge.source, edge.target)
        if costs.setdefault(edge.source, edge.transfer_ms) != edge.transfer_ms:
            raise UserError(
                f"edges of node {edge.source} differ in cost: they carry one tensor, give all one"
            )
    if len(graph) != len(fields.nodes):
        raise UserError(
            "an edge names an unknown node, or two nodes have one id: name each node once"
        )
    try:
        order = list(nx.lexicographical_topological_sort(graph))
    except nx.NetworkXUnfeasible:
        raise UserError("its edges form a cycle") from None
    index = {key: position for position, key in enumerate(order)}
    pairs = sorted((index[a], index[b]) for a, b in graph.edges)
    return order, np.array(pairs, dtype=np.int64).reshape(-1, 2).T, costs


def colour_classes(colours: Sequence[int | None]) -> IntArray:
    """(n,) class of each node, numbered by appearance; nodes without a colour are alone."""
    numbers: dict[Any, int] = {}
    keys = [("own", node) if c is None else ("class", c) for node, c in enumerate(colours)]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
