"""Devices, links and limits as arrays, for policies that are not tied to one machine.

Times are multiples of ``scale_ms``, in observations their logarithms; bytes are shares of the
model's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from placement_gym.base import Float32Array, FloatArray, IntArray
from placement_gym.envs.scaling import LOG_DIVISOR, IndexBox
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import Tasks

DEVICE_FEATURES = ("limit", "limited", "host", "mean_ms", "submodel_ms")
"""Columns of ``devices``: bytes that fit; 1 if these are fewer than the model's; 1 for the host;
mean time of a unit; cost of a submodel."""
LIMIT, LIMITED, HOST, MEAN_MS, SUBMODEL_MS = range(len(DEVICE_FEATURES))
EDGE_FEATURES = ("mean_ms", "tensors", "size")
"""Columns of ``edge_attr``: mean transfer time over pairs of devices; number of tensors; their size
in mean tensors."""
LINK_FEATURES = ("fixed_ms", "ms_per_size")
"""Last axis of ``links``: fixed time of a transfer, and additional time for a mean tensor."""
OBSERVED = {"unit_ms": "unit_times", "scale_ms": "scale"}
"""Arrays of ``graph_table`` that have another name in observations."""
LOGARITHMS = {
    "devices": slice(MEAN_MS, SUBMODEL_MS + 1),
    "links": slice(None),
    "unit_times": slice(None),
    "edge_attr": slice(None),
}
"""Columns that observations hold as log(1 + value)."""


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """Describes devices, links, times and bytes in arrays that are padded with zeros.

    Edge e takes ``tensors[e] * links[a, b, 0] + size[e] * links[a, b, 1]`` from device a to b. A
    tensor that several units of a device read moves there once.

    Attributes:
        problem: Units, devices and limits.
        costs: Times; None leaves them at zero.
        n_nodes: Padded number N of units.
        n_edges: Padded number E of edges.
        n_devices: Padded number D of devices.
    """

    problem: Problem
    costs: CostTable | None
    n_nodes: int
    n_edges: int
    n_devices: int

    def make_spaces(self) -> dict[str, spaces.Space[Any]]:
        """The spaces of ``observed``."""
        n_nodes, n_edges, n_devices = self.n_nodes, self.n_edges, self.n_devices

        def box(*shape: int) -> spaces.Box:
            return spaces.Box(0.0, np.inf, shape, np.float32)

        return {
            "device_mask": spaces.MultiBinary(n_devices),
            "memory_pool": IndexBox(n_devices, (n_devices,)),
            "devices": box(n_devices, len(DEVICE_FEATURES)),
            "links": box(n_devices, n_devices, len(LINK_FEATURES)),
            "unit_times": box(n_nodes, n_devices),
            "unit_bytes": spaces.Box(0.0, 1.0, (n_nodes,), np.float32),
            "supported": spaces.MultiBinary([n_nodes, n_devices]),
            "edge_attr": box(n_edges, len(EDGE_FEATURES)),
            "scale": spaces.Box(-np.inf, np.inf, (1,), np.float32),
        }

    @cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of ``graph_table``."""
        problem, memory = self.problem, self.problem.memory
        present = len(problem.devices)
        arrays: dict[str, NDArray[Any]] = {
            "device_mask": np.ones(present, dtype=np.int8),
            # The number of each device's pool, from 1; 0 if it shares none.
            "memory_pool": np.where(memory.shared.sum(axis=1) > 1, memory.owner + 1, 0),
            "devices": np.zeros((present, len(DEVICE_FEATURES)), dtype=np.float32),
            "links": np.zeros((present, present, len(LINK_FEATURES)), dtype=np.float32),
            "unit_ms": np.zeros(problem.supported.shape, dtype=np.float32),
            "unit_bytes": (problem.unit_bytes / problem.total_bytes).astype(np.float32),
            "supported": problem.supported.astype(np.int8),
            "edge_attr": np.zeros(
                (problem.units.quotient.n_edges, len(EDGE_FEATURES)), dtype=np.float32
            ),
            "scale_ms": np.ones(1, dtype=np.float32),
        }
        table = arrays["devices"]
        table[:, LIMIT], table[:, LIMITED] = problem.limit_shares, problem.limit_shares < 1.0
        table[:, HOST] = [device.host for device in problem.devices]
        if self.costs is not None:
            add_times(arrays, problem, self.costs)
        full = self.make_spaces()
        return {
            key: pad_to(value, full[OBSERVED.get(key, key)].shape or ())
            for key, value in arrays.items()
        }

    @cached_property
    def observed(self) -> dict[str, NDArray[Any]]:
        """The arrays of observations, without ``room``."""
        observed = {OBSERVED.get(key, key): value.copy() for key, value in self.arrays.items()}
        for key, columns in LOGARITHMS.items():
            observed[key][..., columns] = np.log1p(observed[key][..., columns])
        observed["memory_pool"] = IndexBox(self.n_devices, ()).scale(observed["memory_pool"])
        observed["scale"] = np.log10(observed["scale"]) / LOG_DIVISOR
        return observed

    def observe_room(self, assignments: IntArray) -> Float32Array:
        """(k, D) free memory under (k, n_units) placements, as shares of the model's bytes.

        It is negative beyond a limit. A device without a limit has room for the whole model.
        """
        problem = self.problem
        used = np.array([problem.memory_bytes(assignment) for assignment in assignments])
        used_shares = problem.memory.held(used)[:, problem.memory.of_device] / problem.total_bytes
        room = np.zeros((len(assignments), self.n_devices), dtype=np.float32)
        room[:, : used_shares.shape[1]] = problem.limit_shares - used_shares
        return room


def add_times(arrays: dict[str, NDArray[Any]], problem: Problem, costs: CostTable) -> None:
    """Fill in times, in multiples of the mean time of a unit on a device that supports it."""
    supported = problem.supported
    unit_ms = costs.unit_ms(problem.units)
    scale_ms = float(unit_ms[supported].mean()) or 1.0
    of_device = np.where(supported, unit_ms, 0.0).sum(axis=0) / np.maximum(supported.sum(axis=0), 1)
    arrays["scale_ms"][:] = scale_ms
    arrays["unit_ms"][:] = unit_ms / scale_ms
    arrays["devices"][:, MEAN_MS] = of_device / scale_ms
    arrays["devices"][:, SUBMODEL_MS] = costs.submodel_ms / scale_ms
    size, tensors, mean_size = edge_sizes(problem, costs)
    links = np.stack([costs.link_ms, costs.link_ms_per_size * mean_size], axis=2) / scale_ms
    off_diagonal = ~np.eye(len(costs.devices), dtype=bool)
    fixed, per_size = links[off_diagonal].mean(axis=0) if off_diagonal.any() else np.zeros(2)
    arrays["links"][:] = links
    arrays["edge_attr"][:] = np.stack([tensors * fixed + size * per_size, tensors, size], axis=1)


def edge_sizes(problem: Problem, costs: CostTable) -> tuple[FloatArray, FloatArray, float]:
    """(n_edges,) sizes in mean tensors and (n_edges,) numbers of tensors; a mean tensor's size."""
    tasks = Tasks.from_units(problem.units, costs)
    tensor, reader = tasks.tensors.readings()
    sizes = costs.transfer_size[tasks.tensor]
    mean_size = float(sizes.mean()) if sizes.any() else 1.0
    quotient = problem.units.quotient
    edge = quotient.find_edges(tasks.tensors.source[tensor], reader)
    size = np.bincount(edge, sizes[tensor] / mean_size, quotient.n_edges)
    tensors = np.bincount(edge, minlength=quotient.n_edges).astype(np.float64)
    return size.astype(np.float64), tensors, mean_size


def pad_to(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The array, padded with zeros at the end of every axis."""
    return np.pad(array, [(0, full - n) for full, n in zip(shape, array.shape, strict=True)])
