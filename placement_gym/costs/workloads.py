"""Published placement workloads: the JSON files of dnn-partitioning (Tarnawski et al. 2020)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.costs.rooflines import check_kind
from placement_gym.costs.table import CostTable
from placement_gym.devices import DeviceSpec
from placement_gym.errors import UserError
from placement_gym.graph.operators import BACKWARD, OpGraph, Tensors
from placement_gym.graph.units import Units, contract, merge_cycles, sort_labels

ACCELERATOR = "ACC"
SCALES = {"published": 1.0, "published-x1000": 1000.0}
COUNTS = re.compile(r"(?P<cpus>\d+)cpu\+(?P<accs>\d+)acc(@(?P<share>[\d.]+))?")


class WorkloadError(UserError):
    """The file is not a valid workload; the message says what is wrong."""


@dataclass(frozen=True, eq=False)
class Workload:
    """A published graph with its costs on a CPU core and on an accelerator.

    Attributes:
        graph: Nodes in topological order; a node's name is its id, its weights its ``size``, its
            type ``"Forward"`` or ``"Backward"``.
        colours: (n,) nodes of one colour class have the same number.
        host_ms: (n,) time on a CPU core, ``cpuLatency``.
        accelerator_ms: (n,) time on an accelerator, ``fpgaLatency``.
        supported: (n,) bool, whether an accelerator runs the node.
        transfer_ms: (n_tensors,) to move the tensor between accelerator and host memory.
        n_accelerators: Published number of accelerators.
        accelerator_bytes: Memory of one accelerator.
    """

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
        """Read a file of the publication's format.

        Raises:
            WorkloadError: A field is missing or invalid, or the graph is not acyclic.
        """
        try:
            return cls.of(json.loads(Path(path).read_text()), Path(path).stem)
        except WorkloadError as error:
            raise WorkloadError(f"{path}: {error}") from error
        except (KeyError, TypeError, ValueError, OverflowError, nx.NetworkXUnfeasible) as error:
            raise WorkloadError(
                f"{path} is not a valid dnn-partitioning workload file: {error!r}"
            ) from error

    @classmethod
    def of(cls, values: dict[str, Any], name: str) -> Workload:
        """Make a workload from the contents of a file."""
        check_values(values)
        order, edges, costs = sort_nodes(values)
        nodes = {node["id"]: node for node in values["nodes"]}
        rows = [nodes[key] for key in order]
        sources = np.unique(edges[0])
        graph = OpGraph(
            model=name,
            names=tuple(str(key) for key in order),
            types=tuple(BACKWARD if row["isBackwardNode"] else "Forward" for row in rows),
            shapes=((),) * len(order),
            element_types=("",) * len(order),
            members=tuple((str(key),) for key in order),
            weight_bytes=np.array([int(row["size"]) for row in rows], dtype=np.int64),
            flops=np.zeros(len(order)),
            edge_index=edges,
            tensors=node_outputs(edges, values, order),
            inputs=(),
        )
        return cls(
            graph=graph,
            colours=colour_classes([row.get("colorClass") for row in rows]),
            host_ms=np.array([float(row["cpuLatency"]) for row in rows]),
            accelerator_ms=np.array([float(row["fpgaLatency"]) for row in rows]),
            supported=np.array([bool(row["supportedOnFpga"]) for row in rows]),
            transfer_ms=np.array([costs[order[source]] for source in sources]),
            n_accelerators=int(values["maxFPGAs"]),
            accelerator_bytes=int(values["maxSizePerFPGA"]),
        )

    def units(self, granularity: str = "colocated") -> Units:
        """Group nodes by colour class; or each alone with ``"op"``, which the publication forbids.

        The graph of colour classes may be cyclic; units are then numbered by their first node.

        Raises:
            ValueError: The granularity is neither.
        """
        if granularity not in ("colocated", "op"):
            raise UserError(f"a workload's granularity is 'colocated' or 'op', not {granularity!r}")
        labels = np.arange(len(self.graph)) if granularity == "op" else self.colours
        if len(np.unique(merge_cycles(self.graph, labels))) == len(np.unique(labels)):
            labels = sort_labels(self.graph, labels)
        return Units(granularity, self.graph, labels, contract(self.graph, labels))

    def read_split(self, path: str | Path) -> IntArray:
        """(n,) device of each node in a published split: CPU cores first, then accelerators.

        Raises:
            WorkloadError: The file is not a valid split of this workload.
        """
        try:
            values = json.loads(Path(path).read_text())
            parts = [part["nodes"] for part in (*values["cpus"], *values["fpgas"])]
            device = {str(key): number for number, part in enumerate(parts) for key in part}
            return np.array([device[name] for name in self.graph.names], dtype=np.int64)
        except (KeyError, TypeError, ValueError) as error:
            raise WorkloadError(
                f"{path} is not a valid split of {self.graph.model}: {error!r}"
            ) from error

    def devices(self) -> tuple[DeviceSpec, ...]:
        """One CPU without a memory limit, and the published accelerators with theirs."""
        return make_devices(1, self.n_accelerators, memory_bytes=self.accelerator_bytes)

    def costs(self, devices: Sequence[DeviceSpec], source: str = "published") -> CostTable:
        """Make a cost table of the published times; every device but a CPU is an accelerator.

        Args:
            devices: CPUs and accelerators, which are told apart by their kind.
            source: ``"published"``, or ``"published-x1000"``: transfers a thousand times longer,
                as the layer graphs' throughput files seem to state seconds for milliseconds.

        Raises:
            ValueError: The source, or the kind of a device, is unknown.
        """
        if source not in SCALES:
            raise UserError(f"a workload's costs must be one of {sorted(SCALES)}, not {source!r}")
        for device in devices:
            check_kind(device, (ACCELERATOR,))
        host = np.array([device.host for device in devices])
        ways = (~host).astype(float)
        apart = ~np.eye(len(devices), dtype=bool)
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
            link_ms_per_size=(ways[:, None] + ways) * apart,
            submodel_ms=np.zeros(len(devices)),
            host=host,
        )


def check_values(values: dict[str, Any]) -> None:
    """Raise if there are no nodes, or a number is negative or not finite.

    Raises:
        WorkloadError: The message names the node or edge.
    """
    if not values["nodes"]:
        raise WorkloadError("there are no nodes")
    for node in values["nodes"]:
        for key in ("cpuLatency", "fpgaLatency", "size"):
            if not 0.0 <= float(node[key]) < float("inf"):
                raise WorkloadError(f"{key} of node {node['id']} is {node[key]}")
    for edge in values["edges"]:
        if not 0.0 <= float(edge["cost"]) < float("inf"):
            raise WorkloadError(f"cost of an edge of node {edge['sourceId']} is {edge['cost']}")
    for key in ("maxFPGAs", "maxSizePerFPGA"):
        if not 0.0 <= float(values[key]) < float("inf"):
            raise WorkloadError(f"{key} is {values[key]}")


def sort_nodes(values: dict[str, Any]) -> tuple[list[int], IntArray, dict[int, float]]:
    """Sort nodes; returns ids in order, (2, n_edges) indices into them, each source's cost."""
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(node["id"] for node in values["nodes"]))
    costs: dict[int, float] = {}
    for edge in values["edges"]:
        graph.add_edge(edge["sourceId"], edge["destId"])
        cost = float(edge["cost"])
        if costs.setdefault(edge["sourceId"], cost) != cost:
            raise WorkloadError(f"edges of node {edge['sourceId']} differ in cost")
    if len(graph) != len(values["nodes"]):
        raise WorkloadError("an edge names an unknown node, or two nodes have the same id")
    order = list(nx.lexicographical_topological_sort(graph))
    index = {key: position for position, key in enumerate(order)}
    pairs = sorted((index[a], index[b]) for a, b in graph.edges)
    return order, np.array(pairs, dtype=np.int64).reshape(-1, 2).T, costs


def node_outputs(edges: IntArray, values: dict[str, Any], order: list[int]) -> Tensors:
    """One tensor per node, read by all its successors; bytes as stated in the file."""
    stated = {edge["sourceId"]: int(edge.get("size", 0)) for edge in values["edges"]}
    sources, counts = np.unique(edges[0], return_counts=True)
    return Tensors(
        source=sources,
        port=np.zeros(len(sources), dtype=np.int64),
        size_bytes=np.array([stated[order[source]] for source in sources], dtype=np.int64),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        readers=edges[1],
    )


def colour_classes(colours: Sequence[int | None]) -> IntArray:
    """(n,) class of each node by first appearance; a node without a colour is its own class."""
    numbers: dict[Any, int] = {}
    keys = [("own", node) if c is None else ("class", c) for node, c in enumerate(colours)]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def make_devices(n_hosts: int, n_accelerators: int, **limit: Any) -> tuple[DeviceSpec, ...]:
    hosts = [DeviceSpec(f"CPU.{i}" if n_hosts > 1 else "CPU") for i in range(n_hosts)]
    names = [f"{ACCELERATOR}.{i}" for i in range(n_accelerators)]
    return (*hosts, *(DeviceSpec(name, **limit) for name in names))


def parse_counts(text: str) -> tuple[DeviceSpec, ...] | None:
    """Parse counts of devices, for example ``"1cpu+2acc@0.3"``: 30 % of all memory per accelerator.

    Returns None if the text has another form.

    Raises:
        ValueError: The counts are zero, or the share is invalid.
    """
    match = COUNTS.fullmatch(text)
    if not match:
        return None
    if not int(match["cpus"]) + int(match["accs"]):
        raise UserError(f"{text!r} has no devices: count at least one")
    share = match["share"]
    limit = {} if share is None else {"weight_share": float(share)}
    return make_devices(int(match["cpus"]), int(match["accs"]), **limit)


def is_workload(model: object) -> bool:
    """Whether a model argument names a workload file."""
    return isinstance(model, (str, Path)) and Path(model).suffix == ".json"
