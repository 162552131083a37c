"""Pipelines: the contiguous split with the smallest maximum load, by dynamic programming.

An ideal is a set of units that contains all predecessors of its units; the units between two nested
ideals are contiguous. Each device runs such a difference, so that the best chain of ideals is the
best contiguous split (Tarnawski et al. 2020, section 5). Over all ideals that is exact, and
exponential in the graph's width; over the prefixes of one topological order it is the paper's DPL.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.errors import UserError
from placement_gym.problem import Problem
from placement_gym.solvers.forward import Forward
from placement_gym.solvers.tasks import Tasks

MAX_IDEALS = 20_000


class TooManyIdealsError(UserError):
    """The graph is too wide for the exact dynamic programme."""


def exact_pipeline(problem: Problem, costs: CostTable, max_ideals: int = MAX_IDEALS) -> IntArray:
    """(n_units,) devices of the best contiguous split, the published DP.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        max_ideals: Maximum number of ideals.

    Raises:
        TooManyIdealsError: The graph has more than ``max_ideals`` ideals.
        ValueError: No contiguous split is feasible.
    """
    forward = Forward.of(problem.units)
    sets = enumerate_ideals(forward, max_ideals)
    return best_pipeline(problem, costs, forward.expand_to_units(sets))


def linear_pipeline(problem: Problem, costs: CostTable) -> IntArray:
    """(n_units,) devices of the best split along one depth-first topological order, the DPL.

    Quadratic in the number of units.

    Raises:
        ValueError: No split along that order is feasible.
    """
    forward = Forward.of(problem.units)
    order = forward.depth_first()
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    prefixes = position < np.arange(len(order) + 1)[:, None]
    return best_pipeline(problem, costs, forward.expand_to_units(prefixes))


def enumerate_ideals(forward: Forward, max_ideals: int = MAX_IDEALS) -> BoolArray:
    """(n_ideals, n) all ideals as sets of nodes, smaller ones first.

    Raises:
        TooManyIdealsError: There are more than ``max_ideals``.
    """
    n = len(forward)
    needs = [0] * n
    follows: list[list[int]] = [[] for _ in range(n)]
    for source, target in forward.edge_index.T.tolist():
        needs[target] |= 1 << source
        follows[source].append(target)
    found = [0]
    ready = {0: [node for node in range(n) if not needs[node]]}
    for ideal in found:
        waiting = ready.pop(ideal)
        for node in waiting:
            larger = ideal | 1 << node
            if larger in ready:
                continue
            if len(found) == max_ideals:
                raise TooManyIdealsError(
                    f"the graph has more than {max_ideals} ideals: use the linear pipeline (dpl)"
                )
            found.append(larger)
            opened = [after for after in follows[node] if not needs[after] & ~larger]
            ready[larger] = [other for other in waiting if other != node] + opened
    return np.array([[ideal >> node & 1 for node in range(n)] for ideal in found], dtype=np.bool_)


class Stages(NamedTuple):
    """Arrays that give the costs of the difference of two ideals, for each kind of device.

    Attributes:
        words: (n_ideals, n_words) uint64, the units of each ideal as bits.
        work_ms: (n_kinds, n_ideals) time of all its units.
        refused: (n_kinds, n_ideals) int64, number of its units that the kind does not support.
        held: (n_ideals,) bytes of its units.
        limit: (n_kinds,) bytes that fit.
        makes: (n_ideals, n_tensors) int64, 1 if one of its units makes the tensor.
        reads: (n_ideals, n_tensors) int64, number of its units that read the tensor.
        readers: (n_tensors,) int64, number of all units that read the tensor.
        boundary_ms: (n_kinds, n_tensors) time when the tensor leaves or enters the device.
    """

    words: NDArray[np.uint64]
    work_ms: FloatArray
    refused: IntArray
    held: FloatArray
    limit: FloatArray
    makes: IntArray
    reads: IntArray
    readers: IntArray
    boundary_ms: FloatArray

    @classmethod
    def of(
        cls, problem: Problem, costs: CostTable, inside: BoolArray, devices: list[int]
    ) -> Stages:
        """Compute the arrays from (n_ideals, n_units) ideals and one device of each kind."""
        tasks = Tasks.of_units(problem.units, costs)
        tensor, reader = tasks.tensors.readings()
        shape = (problem.n_units, len(tasks.tensor))
        read = csr_array((np.ones(len(tensor), dtype=np.int64), (reader, tensor)), shape)
        member = inside.astype(np.int64)
        packed = np.packbits(inside, axis=1)
        padded = np.pad(packed, [(0, 0), (0, -packed.shape[1] % 8)])
        return cls(
            words=padded.view(np.uint64),
            work_ms=(inside @ tasks.ms[:, devices]).T.copy(),
            refused=(member @ ~problem.supported[:, devices]).T.copy(),
            held=inside @ problem.unit_bytes,
            limit=problem.limits_bytes[devices],
            makes=np.ascontiguousarray(member[:, tasks.tensors.source]),
            reads=np.ascontiguousarray(member @ read),
            readers=np.bincount(tensor, minlength=len(tasks.tensor)),
            boundary_ms=np.ascontiguousarray(costs.boundary_ms[tasks.tensor][:, devices].T),
        )


def best_pipeline(problem: Problem, costs: CostTable, inside: BoolArray) -> IntArray:
    """(n_units,) devices of the best chain of ideals.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        inside: (n_ideals, n_units), smaller ones first, the empty and the full one among them.

    Raises:
        ValueError: No chain is feasible.
    """
    alike = interchangeable_devices(problem, costs)
    shape = [len(group) + 1 for group in alike]
    used = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    stride = np.array([np.prod(shape[k + 1 :], dtype=np.int64) for k in range(len(shape))])
    stages = Stages.of(problem, costs, inside, [group[0] for group in alike])
    best, previous, kind = find_chains(stages, used, stride)
    state, ideal = len(used) - 1, len(inside) - 1
    if not np.isfinite(best[state, ideal]):
        raise UserError("no contiguous split fits the devices' memory and support")
    device = np.empty(problem.n_units, dtype=np.int64)
    while ideal:
        k, smaller = kind[state, ideal], previous[state, ideal]
        device[inside[ideal] & ~inside[smaller]] = alike[k][used[state, k] - 1]
        state, ideal = state - stride[k], smaller
    return device


def interchangeable_devices(problem: Problem, costs: CostTable) -> list[list[int]]:
    """Group devices of equal costs, support and memory."""
    groups: dict[bytes, list[int]] = {}
    for device in range(len(problem.devices)):
        columns = costs.operator_ms, costs.boundary_ms, problem.supported
        key = b"".join(column[:, device].tobytes() for column in columns)
        groups.setdefault(key + problem.limits_bytes[device].tobytes(), []).append(device)
    return list(groups.values())


@njit(cache=True, nogil=True)
def find_chains(
    stages: Stages, used: IntArray, stride: IntArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """Compute the smallest maximum load for every ideal and set of devices in use.

    Args:
        stages: See ``Stages``.
        used: (n_states, n_kinds) number of devices of each kind in use.
        stride: (n_kinds,) distance to the state with one device of the kind less.

    Returns:
        (n_states, n_ideals) maximum load in ms; the previous ideal; the kind of the last device.
    """
    n_ideals, n_words = stages.words.shape
    n_states, n_kinds = used.shape
    best = np.full((n_states, n_ideals), np.inf)
    best[:, 0] = 0.0
    previous, kind = np.zeros((2, n_states, n_ideals), np.int64)
    load = np.empty(n_kinds)
    for i in range(1, n_ideals):
        for j in range(i + 1):
            nested = True
            for w in range(n_words):
                nested &= (stages.words[j, w] & ~stages.words[i, w]) == 0
            if not nested:
                continue
            held = stages.held[i] - stages.held[j]
            for k in range(n_kinds):
                possible = stages.refused[k, i] == stages.refused[k, j] and held <= stages.limit[k]
                load[k] = stages.work_ms[k, i] - stages.work_ms[k, j] if possible else np.inf
            if load.min() >= best[1:, i].max():
                continue
            for t in range(len(stages.readers)):
                read = stages.reads[i, t] - stages.reads[j, t]
                made = stages.makes[i, t] > stages.makes[j, t]
                if read < stages.readers[t] if made else read > 0:
                    for k in range(n_kinds):
                        load[k] += stages.boundary_ms[k, t]
            for s in range(1, n_states):
                for k in range(n_kinds):
                    if used[s, k]:
                        largest = max(best[s - stride[k], j], load[k])
                        if largest < best[s, i]:
                            best[s, i], previous[s, i], kind[s, i] = largest, j, k
    return best, previous, kind
