"""Devices that can be exchanged for one another, and the number of each kind in use."""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, IntArray
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable


def interchangeable_devices(
    problem: Problem, costs: CostTable, transfer_ms: FloatArray | None = None
) -> list[list[int]]:
    """Group devices of equal costs, support and memory; devices of pools also share the pool.

    With (n_tensors, n_devices, n_devices) ``transfer_ms``, exchanging two devices of a group also
    leaves all transfers the same.
    """
    groups: dict[bytes, list[int]] = {}
    for device in range(len(problem.devices)):
        columns = costs.operator_ms, costs.boundary_ms, problem.supported
        key = b"".join(column[:, device].tobytes() for column in columns)
        key += costs.submodel_ms[device].tobytes() + problem.limits_bytes[device].tobytes()
        if problem.memory.shared[device].sum() > 1:
            key += problem.memory.owner[device].tobytes()
        groups.setdefault(key, []).append(device)
    if transfer_ms is None:
        return list(groups.values())
    return [part for group in groups.values() for part in split_by_links(group, transfer_ms)]


def split_by_links(group: list[int], transfer_ms: FloatArray) -> list[list[int]]:
    """Parts of a group whose devices can be exchanged without changing a transfer."""
    parts: list[list[int]] = []
    for device in group:
        for part in parts:
            order = np.arange(transfer_ms.shape[1])
            order[[part[0], device]] = device, part[0]
            if np.array_equal(transfer_ms[:, order][:, :, order], transfer_ms):
                part.append(device)
                break
        else:
            parts.append([device])
    return parts


class Kinds:
    """Kinds of devices; a state is a number of devices in use of each kind."""

    def __init__(self, devices: list[list[int]]) -> None:
        self.devices, self.first = devices, [group[0] for group in devices]
        self.counts = np.array([len(group) for group in devices], dtype=np.int64)
        # states from no device in use, state 0, to all of them, the last
        sizes = self.counts + 1
        self.n_states = int(np.prod(sizes.astype(np.float64)))
        # distance to the state with one device of each kind less
        self.stride = np.array([np.prod(sizes[k + 1 :], dtype=np.int64) for k in range(len(sizes))])

    @property
    def used(self) -> IntArray:
        """(n_states, n_kinds) number of devices in use."""
        numbers = np.unravel_index(np.arange(self.n_states), tuple(self.counts + 1))
        return np.stack(numbers, axis=1).astype(np.int64)
