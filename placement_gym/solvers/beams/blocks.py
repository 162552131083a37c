"""Blocks of a graph between tasks that all others come before or after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.graph.operators import Tensors
from placement_gym.problem import Problem
from placement_gym.solvers.beams.frontier import find_tiny
from placement_gym.solvers.programs.load_cuts import reachable
from placement_gym.solvers.tasks import Tasks


@dataclass(frozen=True, eq=False)
class Block:
    """What runs between two borders, as a problem of its own without limits.

    Attributes:
        tasks: In the order of the list schedule: the entry, which takes no time, the inner tasks,
            and the exit, which is the entry of the next block.
        possible: (n_units, n_devices) bool, which device can run which of the tasks' units.
        unit_bytes: (n_units,) bytes; 0 for what other blocks count.
    """

    tasks: Tasks
    possible: BoolArray
    unit_bytes: FloatArray

    @property
    def n_units(self) -> int:
        return len(self.possible)

    @property
    def limits_bytes(self) -> FloatArray:
        """(n_devices,) infinite."""
        return np.full(self.possible.shape[1], np.inf)

    def enter(self, device: int) -> Block:
        """The block with its entry on a device."""
        possible = self.possible.copy()
        possible[self.tasks.unit[0]] = np.arange(possible.shape[1]) == device
        return replace(self, possible=possible)


@dataclass(frozen=True, eq=False)
class Blocks:
    """All blocks.

    The entry of the first one and the exit of the last one are added to the tasks: they take no
    time, and what they are read by and read needs none to move. Tasks that are not between the
    borders, and tiny ones, are left out, which only makes a schedule faster.

    Attributes:
        blocks: In order.
        loose_bytes: (n_loose,) bytes of units that have no task in a block.
    """

    blocks: list[Block]
    loose_bytes: FloatArray

    @classmethod
    def of(cls, problem: Problem, tasks: Tasks, order: IntArray) -> Blocks:
        """Divide tasks.

        Args:
            problem: Units, devices, support and memory.
            tasks: What is placed.
            order: (n_tasks,) a topological order of the tasks, in which a list schedule runs them.
        """
        core = np.ones(len(tasks) + 2, dtype=bool)
        core[1:-1] = ~np.logical_or(*find_tiny(tasks))[order]
        ended = add_ends(tasks, order)
        reach = reachable(ended)
        borders = find_borders(ended, reach, core)
        counted = np.arange(problem.n_units + 2) >= problem.n_units
        possible = np.pad(problem.possible, ((0, 2), (0, 0)), constant_values=True)
        held = np.pad(problem.unit_bytes, (0, 2))
        blocks = []
        for first, last in pairwise(borders):
            inner = np.flatnonzero(reach[first] & reach[:, last] & core)
            own, unit = select_tasks(ended, np.array([first, *inner, last]))
            mine = np.where(counted[unit], 0.0, held[unit])
            mine[own.unit[0]] = 0.0
            counted[np.delete(unit, own.unit[0])] = True
            blocks.append(Block(own, possible[unit], mine))
        return cls(blocks, held[~counted])


def add_ends(tasks: Tasks, order: IntArray) -> Tasks:
    """Number tasks in order, and add a first and a last one, which are units of their own."""
    n, d = tasks.ms.shape
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(1, n + 1)
    tensor, reader = tasks.tensors.readings()
    sources = np.setdiff1d(np.arange(n), reader)
    unread = np.setdiff1d(np.arange(n), tasks.tensors.source)
    kept = len(tasks.tensors.source)
    maker = np.concatenate([place[tasks.tensors.source], [0], place[unread]])
    tensor = np.concatenate(
        [tensor, np.full(len(sources), kept), kept + 1 + np.arange(len(unread))]
    )
    reader = np.concatenate([place[reader], place[sources], np.full(len(unread), n + 1)])
    moved = np.concatenate([tasks.transfer_ms, np.zeros((1 + len(unread), d, d))])
    ends = tasks.unit.max() + np.array([1, 2])
    unit = np.concatenate([ends[:1], tasks.unit[order], ends[1:]])
    ms = np.pad(tasks.ms[order], ((1, 1), (0, 0)))
    return make_tasks(unit, ms, tensor, maker, reader, moved)


def make_tasks(
    unit: IntArray,
    ms: FloatArray,
    tensor: IntArray,
    maker: IntArray,
    reader: IntArray,
    transfer_ms: FloatArray,
) -> Tasks:
    """Make tasks from the tensor and the reader of each reading, and each tensor's maker."""
    by_tensor = np.lexsort((reader, tensor))
    counts = np.bincount(tensor, minlength=len(maker))
    nothing = np.zeros(len(maker), dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    tensors = Tensors(maker, nothing, nothing, offsets, reader[by_tensor])
    return Tasks(unit, ms, tensors, np.arange(len(maker)), transfer_ms)


def find_borders(tasks: Tasks, reach: BoolArray, core: BoolArray) -> IntArray:
    """Tasks that all others come before or after, and that no reading of others bypasses.

    Args:
        tasks: In topological order.
        reach: See ``reachable``.
        core: (n_tasks,) the tasks that count.
    """
    n = len(tasks)
    tensor, reader = tasks.tensors.readings()
    maker = tasks.tensors.source[tensor]
    counts = core[maker] & core[reader]
    bypassed = np.bincount(maker[counts] + 1, minlength=n) - np.bincount(
        reader[counts], minlength=n
    )
    ordered = reach | reach.T | np.eye(n, dtype=bool)
    return np.flatnonzero(core & ordered[:, core].all(axis=1) & (np.cumsum(bypassed) == 0))


def select_tasks(tasks: Tasks, members: IntArray) -> tuple[Tasks, IntArray]:
    """Some tasks with what they read from each other; the first one takes no time.

    Returns:
        The tasks, whose first one is a unit of its own; and (n_units,) the former unit of each.
    """
    number = np.full(len(tasks), -1)
    number[members] = np.arange(len(members))
    tensor, reader = tasks.tensors.readings()
    maker = tasks.tensors.source[tensor]
    inside = (number[maker] >= 0) & (number[reader] >= 0)
    kept, tensor = np.unique(tensor[inside], return_inverse=True)
    maker, reader = number[tasks.tensors.source[kept]], number[reader[inside]]
    ms = tasks.ms[members]
    ms[0] = 0.0
    former, unit = np.unique(tasks.unit[members[1:]], return_inverse=True)
    unit = np.concatenate([[len(former)], unit])
    own = make_tasks(unit, ms, tensor, maker, reader, tasks.transfer_ms[kept])
    return own, np.concatenate([former, tasks.unit[members[:1]]])
