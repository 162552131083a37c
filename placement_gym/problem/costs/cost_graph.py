"""A user's graph with its costs and devices, in place of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from placement_gym.base import FloatArray, JsonFile, UserError, check_choice
from placement_gym.graph import OpGraph, Tensors, Units, distinct_edges, group
from placement_gym.hardware import DeviceSpec, parse_devices
from placement_gym.problem.costs.table import MAX_SUM, CostTable

if TYPE_CHECKING:
    import networkx as nx

FORMAT = 1
"""Version of the file; raise it when an older program would misread a newer file."""
ANY = -1
"""An axis of any length."""


class CostGraph(JsonFile):
    """A graph without a model: times of units, tensors and devices.

    ``gym.make("DevicePlacementSim-v0", model=graph)`` places it, as does ``model="FILE.json"`` with
    a saved file. Devices and links work at the same time unless ``schedule`` says otherwise. A
    number in place of an array holds for all entries.

    Args:
        ms: (n_units, n_devices) time of each unit on each device; infinite where it cannot run.
        edges: (n_edges, 2) a unit, and a reader with a higher number.
        edge_bytes: (n_edges,) bytes of each edge. Edges of one unit with equal bytes carry one
            tensor, which moves once to each device that reads it.
        devices: As for ``SimulatedEnv``, with any names and memory limits.
        gb_per_s: (n_devices, n_devices) bandwidth from each device to each other; infinite if bytes
            take no time.
        link_ms: (n_devices, n_devices) fixed time of each transfer.
        memory_bytes: (n_units,) memory that each unit takes on its device.
        names: (n_units,) distinct names; None numbers the units.
        name: Name of the graph.

    Raises:
        UserError: Shapes do not fit together, a number is out of range, a unit reads one that does
            not stand before it, or a device is malformed.
    """

    kind: ClassVar = "a valid cost graph"
    sources: ClassVar = ("own",)
    """Names of costs that environments accept."""

    def __init__(
        self,
        *,
        ms: ArrayLike,
        edges: ArrayLike,
        edge_bytes: ArrayLike,
        devices: str | Sequence[Any],
        gb_per_s: ArrayLike,
        link_ms: ArrayLike = 0.0,
        memory_bytes: ArrayLike = 0.0,
        names: Sequence[str] | None = None,
        name: str = "graph",
    ) -> None:
        self.devices = parse_devices(devices)
        links = (len(self.devices), len(self.devices))
        self.ms = read_numbers("ms", ms, (ANY, len(self.devices)), most=np.inf)
        n = len(self.ms)
        if not n:
            raise UserError("ms has no rows: a graph has at least one unit")
        self.edges = read_numbers("edges", edges, (ANY, 2), most=n - 1).astype(np.int64)
        sizes = read_numbers("edge_bytes", edge_bytes, (len(self.edges),))
        self.edge_bytes = sizes.astype(np.int64)
        self.gb_per_s = read_numbers("gb_per_s", gb_per_s, links, most=np.inf)
        self.link_ms = read_numbers("link_ms", link_ms, links)
        self.memory_bytes = read_numbers("memory_bytes", memory_bytes, (n,)).astype(np.int64)
        self.names = tuple(map(str, names or (f"unit{i}" for i in range(n))))
        self.name = str(name)
        if len(self.names) != n or len(set(self.names)) < n:
            raise UserError(f"names must be distinct, one for each of {n} rows of ms")
        for source, target in self.edges[self.edges[:, 0] >= self.edges[:, 1]].tolist():
            raise UserError(
                f"unit {target} reads unit {source}, which does not stand before it: number the "
                "units in topological order, as CostGraph.from_networkx does"
            )
        if not (self.gb_per_s + np.eye(len(self.devices))).all():
            raise UserError("gb_per_s must be above 0, and inf where bytes take no time")

    @classmethod
    def from_networkx(cls, graph: nx.DiGraph, devices: str | Sequence[Any], **kwargs: Any) -> Self:
        """Make a cost graph of a ``networkx.DiGraph``, with its nodes in topological order.

        Args:
            graph: Edges have ``bytes``; nodes have ``ms``, a list of times in the order of the
                devices or a mapping by name (a device that is left out cannot run the node), and
                optionally ``bytes`` of memory.
            devices: See the class.
            kwargs: Other arguments of the class.

        Raises:
            UserError: As for the class; or the graph has a cycle, or an attribute is missing.
        """
        import networkx as nx

        position = {node: index for index, node in enumerate(graph)}
        try:
            order = list(nx.lexicographical_topological_sort(graph, key=position.__getitem__))
        except nx.NetworkXException as error:
            raise UserError(f"the graph must be directed, without a cycle: {error}") from error
        index = {node: number for number, node in enumerate(order)}
        specs = parse_devices(devices)
        try:
            times = [graph.nodes[node]["ms"] for node in order]
            edge_bytes = [data["bytes"] for _, _, data in graph.edges(data=True)]
        except KeyError as error:
            raise UserError(f"a node needs 'ms' and an edge 'bytes': one has no {error}") from None
        return cls(
            ms=[list_times(ms, [spec.name for spec in specs]) for ms in times],
            edges=[(index[source], index[target]) for source, target in graph.edges()],
            edge_bytes=edge_bytes,
            devices=specs,
            memory_bytes=[graph.nodes[node].get("bytes", 0.0) for node in order],
            names=list(map(str, order)),
            **{"name": graph.name or "graph", **kwargs},
        )

    def __repr__(self) -> str:
        return f"CostGraph({self.name!r})"

    def env_kwargs(self) -> dict[str, Any]:
        """Arguments for ``gym.make("DevicePlacementSim-v0", **kwargs)``."""
        return {"model": self, "devices": self.devices, "granularity": "op"}

    @cached_property
    def graph(self) -> OpGraph:
        """The graph with units as operators."""
        # Sorting by source and size brings the edges of a tensor together.
        columns = np.column_stack([self.edges[:, 0], self.edge_bytes, self.edges[:, 1]])
        source, size, reader = np.unique(columns, axis=0).T
        first = np.flatnonzero(
            (np.diff(source, prepend=-1) != 0) | (np.diff(size, prepend=-1) != 0)
        )
        sources, n = source[first], len(self.names)
        return OpGraph(
            model=self.name,
            names=self.names,
            types=("Unit",) * n,
            shapes=((),) * n,
            element_types=("",) * n,
            members=tuple((name,) for name in self.names),
            weight_bytes=self.memory_bytes,
            flops=np.zeros(n),
            edge_index=distinct_edges(self.edges.T),
            tensors=Tensors(
                source=sources,
                port=np.arange(len(sources)) - np.searchsorted(sources, sources),
                size_bytes=size[first],
                offsets=np.append(first, len(source)),
                readers=reader,
            ),
            inputs=(),
        )

    def units(self, granularity: str = "op") -> Units:
        """Each unit alone, at either granularity."""
        check_choice("a cost graph's granularity", granularity, ("colocated", "op"))
        return group(self.graph, "op")

    def costs(self, devices: Sequence[DeviceSpec], source: str = "own") -> CostTable:
        """The costs on some of the devices; ``UserError`` for one without costs."""
        own = [spec.name for spec in self.devices]
        for spec in devices:
            check_choice(f"a device of {self.name!r}", spec.name, own)
        columns = np.array([own.index(spec.name) for spec in devices])
        links, ms = np.ix_(columns, columns), self.ms[:, columns]
        runs = np.isfinite(ms)
        # Observations and ranks also read times where a unit cannot run.
        slowest = np.where(runs, ms, 0.0).max(axis=1, keepdims=True)
        away = 1.0 - np.eye(len(columns))
        return CostTable(
            source=source,
            graph=self.graph.fingerprint(),
            operators=self.names,
            devices=tuple(spec.name for spec in devices),
            operator_ms=np.where(runs, ms, slowest),
            supported=runs,
            memory_bytes=self.memory_bytes,
            transfer_size=self.graph.tensors.size_bytes / 1e6,
            transfer_unit="MB",
            link_ms=self.link_ms[links] * away,
            link_ms_per_size=away / np.where(away, self.gb_per_s[links], 1.0),
            submodel_ms=np.zeros(len(columns)),
            host=np.array([spec.host for spec in devices]),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.name,
            "devices": [spec.to_json() for spec in self.devices],
            "names": list(self.names),
            "ms": hide_infinite(self.ms),
            "edges": self.edges.tolist(),
            "edge_bytes": self.edge_bytes.tolist(),
            "gb_per_s": hide_infinite(self.gb_per_s),
            "link_ms": self.link_ms.tolist(),
            "memory_bytes": self.memory_bytes.tolist(),
        }

    @classmethod
    def from_json(cls, values: Any) -> Self:
        from placement_gym.base.schemas import CostGraphFields

        return cls(**vars(CostGraphFields.read(values, FORMAT)))


def read_numbers(
    name: str, values: ArrayLike, shape: tuple[int, ...], most: float = MAX_SUM
) -> FloatArray:
    """Read numbers from 0 to ``most`` of a shape, or repeat one; others raise ``UserError``."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(
            f"{name} must be rows of numbers of one length, not {values!r:.80}"
        ) from None
    if not array.ndim and ANY not in shape:
        array = np.full(shape, array)
    if not array.size and ANY in shape:
        array = array.reshape(0, *shape[1:])
    known = zip(array.shape, shape, strict=False)
    if array.ndim != len(shape) or not all(want in (ANY, have) for have, want in known):
        wanted = str(shape).replace(str(ANY), "n")
        raise UserError(f"{name} has shape {array.shape}, not {wanted}")
    wrong = array[~((array >= 0) & (array <= most))]
    if wrong.size:
        raise UserError(f"{name} must be numbers from 0 to {most:g}, not {wrong[0]:g}")
    return array


def list_times(ms: Any, devices: Sequence[str]) -> Any:
    """The times of a node in the order of the devices."""
    if not isinstance(ms, Mapping):
        return ms
    for name in ms:
        check_choice("a device of 'ms'", name, devices)
    return [ms.get(name, np.inf) for name in devices]


def hide_infinite(array: FloatArray) -> list[list[float | None]]:
    """Rows for JSON, with None for infinity."""
    return [[ms if np.isfinite(ms) else None for ms in row] for row in array.tolist()]
