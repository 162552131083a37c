"""Observations of whole placements: their keys, shapes, bounds and padding."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from placement_gym.base import BoolArray, FloatArray, IntArray, UserError, check_flag, check_integer
from placement_gym.envs.scaling import GRAPH_IDS, LOG_DIVISOR, IndexBox
from placement_gym.graph import features
from placement_gym.problem import LEVELS, PLACEMENT_ALONE, ActionLayout, Problem

if TYPE_CHECKING:
    from placement_gym.envs.device_table import DeviceTable
    from placement_gym.problem.costs import CostTable

Observation = dict[str, NDArray[Any]]

COST_COLUMNS = 16
MAX_PADDED = {"max_nodes": 1_000_000, "max_edges": 10_000_000, "max_devices": COST_COLUMNS}
"""Largest sizes to pad to. Chosen for the largest generated graph, whose arrays take 1 GB."""
WIDTHS = {
    "type": features.OTHER_TYPE + 1,
    "shape": features.MAX_RANK,
    "in_degree": features.MAX_DEGREE + 1,
    "out_degree": features.MAX_DEGREE + 1,
    "fractal_dimension": 1,
    "position": features.POSITIONS,
    "work": 3,
    "cost": COST_COLUMNS,
}
ENDS = np.cumsum(list(WIDTHS.values())).tolist()
FEATURES: dict[str, slice] = {
    name: slice(end - WIDTHS[name], end) for name, end in zip(WIDTHS, ENDS, strict=True)
}
"""Columns of ``x`` by name; ``cost`` has one column per device, zeros without a cost table."""
N_FEATURES = ENDS[-1]
SCALED_BLOCKS = ("shape", "work")
"""Blocks of logarithms, which observations divide by ``LOG_DIVISOR``."""
UNBOUNDED = ("shape", "fractal_dimension", "work", "cost")
"""Blocks without an upper bound; the others end at 1, and begin at 0 or, for positions, at -1."""


def compute_node_features(problem: Problem, unit_ms: FloatArray | None) -> NDArray[np.float32]:
    """Compute (n_units, N_FEATURES) float32 features in the order of ``FEATURES``.

    Args:
        problem: Units and devices.
        unit_ms: (n_units, n_devices) times for the block ``cost``, which is scaled to a mean of 1;
            None leaves it at zero.
    """
    graph = problem.units.quotient
    costs = np.zeros((len(graph), COST_COLUMNS))
    if unit_ms is not None:
        costs[:, : unit_ms.shape[1]] = unit_ms / unit_ms.mean()
    blocks = {
        "type": features.type_shares(problem.units),
        "shape": features.shapes(graph),
        "in_degree": features.degrees(graph, incoming=True),
        "out_degree": features.degrees(graph, incoming=False),
        "fractal_dimension": features.fractal_dimension(graph),
        "position": features.positions(len(graph)),
        "work": features.work(graph),
        "cost": costs,
    }
    return np.concatenate([blocks[name] for name in FEATURES], axis=1).astype(np.float32)


def observe_features(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale the result of ``compute_node_features`` as observations do."""
    observed = x.copy()
    for name in SCALED_BLOCKS:
        observed[..., FEATURES[name]] /= LOG_DIVISOR
    observed[..., FEATURES["cost"]] = np.log1p(observed[..., FEATURES["cost"]])
    return observed


def make_features_space(n_nodes: int) -> spaces.Box:
    """The space of ``x`` in observations."""
    low, high = np.zeros((2, n_nodes, N_FEATURES), dtype=np.float32)
    low[:, FEATURES["position"]], high[:] = -1.0, 1.0
    for name in UNBOUNDED:
        high[:, FEATURES[name]] = np.inf
    return spaces.Box(low, high, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Observer:
    """Builds the observations of one problem.

    ``DevicePlacementEnv`` documents their keys, ``SimulatedEnv`` those of priority and fusion.
    Masks are ``MultiBinary``, which SB3's ``VecNormalize`` cannot normalise: use
    ``VecNormalize(env, norm_obs_keys=["x"])``, or ``norm_obs=False``.

    Args:
        problem: Units and devices.
        horizon: Placements per episode.
        max_nodes: Number of units to pad to; None pads none.
        max_edges: Number of edges to pad to; None pads none.
        max_devices: Number of devices to pad to; None pads none.
        observe_graph: Include the graph.
        observe_devices: Include limits, free memory, times and links.
        unit_ms: See ``compute_node_features``.
        costs: Times for ``observe_devices``; None leaves them at zero.
        decisions: What an action decides; only placements can be padded.

    Raises:
        ValueError: An argument has another type, or the problem is larger than the padding or than
            ``COST_COLUMNS`` devices.
    """

    problem: Problem
    horizon: int
    max_nodes: int | None = None
    max_edges: int | None = None
    max_devices: int | None = None
    observe_graph: bool = True
    observe_devices: bool = False
    unit_ms: FloatArray | None = None
    costs: CostTable | None = None
    decisions: Sequence[str] = PLACEMENT_ALONE

    def __post_init__(self) -> None:
        padded = [name for name in MAX_PADDED if getattr(self, name) is not None]
        for name in padded:
            check_integer(name, getattr(self, name), 1, MAX_PADDED[name])
        check_flag("observe_graph", self.observe_graph)
        check_flag("observe_devices", self.observe_devices)
        quotient = self.problem.units.quotient
        if self.n_nodes < len(quotient) or self.n_edges < quotient.n_edges:
            raise UserError(
                f"max_nodes={self.max_nodes}, max_edges={self.max_edges} are too small: "
                f"{quotient.model!r} has {len(quotient)} units and {quotient.n_edges} edges, "
                "pass at least these"
            )
        n_present = len(self.problem.devices)
        if max(self.n_devices, n_present) > COST_COLUMNS:
            raise UserError(f"at most {COST_COLUMNS} devices, not {max(self.n_devices, n_present)}")
        if self.n_devices < n_present:
            raise UserError(
                f"max_devices={self.max_devices} is too small: pass {n_present} or more"
            )
        if padded and not self.layout.alone:
            raise UserError(f"{padded} pad placements only: remove them, or the other decisions")

    @cached_property
    def n_nodes(self) -> int:
        return len(self.problem.units) if self.max_nodes is None else int(self.max_nodes)

    @cached_property
    def n_edges(self) -> int:
        n_edges = self.problem.units.quotient.n_edges
        return max(n_edges, 1) if self.max_edges is None else int(self.max_edges)

    @cached_property
    def n_devices(self) -> int:
        return len(self.problem.devices) if self.max_devices is None else int(self.max_devices)

    @cached_property
    def layout(self) -> ActionLayout:
        """The order of decisions in an action."""
        return ActionLayout(self.decisions, self.problem, self.n_nodes, self.n_devices)

    @cached_property
    def graph_id(self) -> int:
        """Number below 2^24 that identifies graph and costs, and observed limits and links."""
        parts = [self.problem.fingerprint().encode(), self.problem.supported.tobytes()]
        if self.unit_ms is not None:
            parts.append(self.unit_ms.tobytes())
        if self.observe_devices:
            parts.append(self.problem.limits_bytes.tobytes())
            if self.problem.tight_pools:
                parts.append(self.problem.memory.owner.tobytes())
            if self.costs is not None:
                parts.append(self.costs.fingerprint.encode())
        return int(hashlib.sha256(b"".join(parts)).hexdigest()[:6], 16)

    def space(self) -> spaces.Dict:
        """The observation space."""
        keys: dict[str, spaces.Space[Any]] = {
            "node_mask": spaces.MultiBinary(self.n_nodes),
            **self.index_spaces,
        }
        if self.observe_graph:
            keys |= {
                "x": make_features_space(self.n_nodes),
                "edge_mask": spaces.MultiBinary(self.n_edges),
            }
        if self.observe_devices:
            keys["room"] = spaces.Box(-1.0, 1.0, (self.n_devices,), np.float32)
        if self.observe_devices and self.observe_graph:
            keys |= self.device_table.make_spaces()
        if not self.layout.alone:
            keys["fused"] = spaces.MultiBinary(self.layout.n_edges)
        return spaces.Dict(keys)

    @cached_property
    def index_spaces(self) -> dict[str, IndexBox]:
        """The spaces of indices, which observations divide by their number."""
        boxes = {
            "placement": IndexBox(self.n_devices, (self.n_nodes,)),
            "step": IndexBox(self.horizon, (1,)),
            "graph_id": IndexBox(GRAPH_IDS, (1,)),
        }
        if self.observe_graph:
            boxes["edges"] = IndexBox(self.n_nodes, (2, self.n_edges))
        if not self.layout.alone:
            boxes["priority"] = IndexBox(LEVELS, (self.layout.n_units,))
        return boxes

    @cached_property
    def graph_arrays(self) -> Observation:
        """The graph's arrays in ``graph_table``, not scaled."""
        quotient = self.problem.units.quotient
        x = np.zeros((self.n_nodes, N_FEATURES), dtype=np.float32)
        x[: len(quotient)] = compute_node_features(self.problem, self.unit_ms)
        edge_index = np.zeros((2, self.n_edges), dtype=np.int64)
        edge_index[:, : quotient.n_edges] = quotient.edge_index
        return {
            "x": x,
            "edge_index": edge_index,
            "edge_mask": (np.arange(self.n_edges) < quotient.n_edges).astype(np.int8),
            "node_mask": self.node_mask,
        }

    @cached_property
    def device_table(self) -> DeviceTable:
        """The arrays of ``observe_devices``."""
        from placement_gym.envs.device_table import DeviceTable

        return DeviceTable(self.problem, self.costs, self.n_nodes, self.n_edges, self.n_devices)

    def graph_table(self, devices: bool, costs: CostTable | None) -> dict[int, Observation]:
        """See ``DevicePlacementEnv.graph_table``; times of devices are those of ``costs``."""
        arrays = {key: value.copy() for key, value in self.graph_arrays.items()}
        if devices:
            arrays |= replace(self, costs=costs).device_table.arrays
        return {self.graph_id: arrays | {"action_mask": self.device_masks.copy()}}

    @cached_property
    def constant(self) -> Observation:
        """The entries that are equal in all observations."""
        boxes = self.index_spaces
        constant: Observation = {
            "node_mask": self.node_mask,
            "graph_id": boxes["graph_id"].scale(np.array([self.graph_id])),
        }
        if self.observe_graph:
            constant |= {
                "x": observe_features(self.graph_arrays["x"]),
                "edges": boxes["edges"].scale(self.graph_arrays["edge_index"]),
                "edge_mask": self.graph_arrays["edge_mask"],
            }
        if self.observe_graph and self.observe_devices:
            constant |= self.device_table.observed
        return constant

    @cached_property
    def node_mask(self) -> NDArray[np.int8]:
        """(N,) 1 for a unit, 0 for padding."""
        return (np.arange(self.n_nodes) < len(self.problem.units)).astype(np.int8)

    @cached_property
    def device_masks(self) -> BoolArray:
        """(N, D) bool, whether each unit may go to each device; padded units may go to any."""
        n_units, n_present = self.problem.supported.shape
        masks = np.zeros((self.n_nodes, self.n_devices), dtype=np.bool_)
        masks[:, :n_present] = True
        masks[:n_units, :n_present] = self.problem.supported
        return masks

    def observe(self, row: IntArray, step: int) -> Observation:
        """Observe a row, (n_units,) devices or all decisions, in new arrays."""
        observation = {key: value.copy() for key, value in self.constant.items()}
        return observation | self.observe_decisions(row, np.array([step]))

    def observe_batch(self, rows: IntArray, step: int) -> Observation:
        """Observe k rows in arrays with a leading axis of k."""
        k = len(rows)
        constant = {key: np.repeat(array[None], k, axis=0) for key, array in self.constant.items()}
        return constant | self.observe_decisions(rows, np.full((k, 1), step))

    def observe_decisions(self, rows: IntArray, step: IntArray) -> Observation:
        """The entries that depend on decisions, of one row or of (k, width) rows."""
        assignments = rows[..., : self.layout.n_units]
        placement = assignments
        if self.n_nodes > self.layout.n_units:
            placement = np.zeros((*rows.shape[:-1], self.n_nodes), dtype=np.int64)
            placement[..., : self.layout.n_units] = assignments
        boxes = self.index_spaces
        observed: Observation = {
            "placement": boxes["placement"].scale(placement),
            "step": boxes["step"].scale(step),
        }
        if self.observe_devices:
            room = self.device_table.observe_room(np.atleast_2d(assignments))
            observed["room"] = room.reshape(*rows.shape[:-1], self.n_devices)
        if not self.layout.alone:
            _, priority, fused = self.layout.split(rows)
            observed["priority"] = boxes["priority"].scale(priority)
            observed["fused"] = fused.astype(np.int8)
        return observed
