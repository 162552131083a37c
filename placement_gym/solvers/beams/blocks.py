"""Blocks of a graph between tasks that all others come before or after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import pairwise

import numpy as np

from placement_gym.base.arrays import BoolArray, FloatArray, IntArray
from placement_gym.graph.operators import Tensors
from placement_gym.hardware.memory_groups import MemoryGroups
from placement_gym.problem.problem import Problem
from placement_gym.solvers.beams.frontier import find_tiny
from placement_gym.solvers.tasks import Tasks


@dataclass(frozen=True, eq=False)
class Block:
    """The tasks between two borders, as a problem of its own without memory limits.

    Attributes:
        tasks: In the order of the list schedule: the entry, which takes no time, the inner tasks,
            and the exit, which is the entry of the next block.
        possible: (n_units, n_devices) bool, which device can run which of the tasks' units.
        unit_bytes: (n_units,) bytes; 0 for units that are counted in another block.
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

    @property
    def memory(self) -> MemoryGroups:
        """Without limits."""
        limits = self.limits_bytes
        return MemoryGroups(np.arange(len(limits)), limits)

    @cached_property
    def contents(self) -> bytes:
        """A digest that is equal where two blocks are the same problem."""
        tasks = self.tasks
        parts = (tasks.unit, tasks.ms, tasks.transfer_ms, self.possible, self.unit_bytes)
        read = tasks.tensors.source, tasks.tensors.offsets, tasks.tensors.readers
        return sha256(b"".join(part.tobytes() for part in (*parts, *read))).digest()

    def enter(self, device: int) -> Block:
        """The block with its entry on a device."""
        possible = self.possible.copy()
        possible[self.tasks.unit[0]] = np.arange(possible.shape[1]) == device
        return replace(self, possible=possible)


@dataclass(frozen=True, eq=False)
class Blocks:
    """All blocks of a problem.

    The entry of the first one and the exit of the last one are added to the tasks: neither they nor
    the transfers from and to them take time. Tiny tasks are left out, which can only make a
    schedule faster.

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
        core = order[~np.logical_or(*find_tiny(problem, tasks))[order]]
        ended = add_ends(tasks, core)
        counted = np.arange(problem.n_units + 2) >= problem.n_units
        possible = np.pad(problem.possible, ((0, 2), (0, 0)), constant_values=True)
        held = np.pad(problem.unit_bytes, (0, 2))
        blocks = []
        for first, last in pairwise(find_borders(ended).tolist()):
            own, unit = select_tasks(ended, first, last)
            mine = np.where(counted[unit], 0.0, held[unit])
            mine[own.unit[0]] = 0.0
            counted[np.delete(unit, own.unit[0])] = True
            blocks.append(Block(own, possible[unit], mine))
        return cls(blocks, held[~counted])

    @property
    def largest(self) -> int:
        """The most inner tasks of any block."""
        return max(len(block.tasks) - 2 for block in self.blocks)


def add_ends(tasks: Tasks, core: IntArray) -> Tasks:
    """Number some tasks in order, and add a first and a last one, which are units of their own.

    Tensors are in the order of their makers.
    """
    m, d = len(core), tasks.ms.shape[1]
    number = np.full(len(tasks), -1)
    number[core] = np.arange(1, m + 1)
    tensor, maker, reader = tasks.readings
    kept = (number[maker] > 0) & (number[reader] > 0)
    tensor, reader = tensor[kept], number[reader[kept]]
    every = np.arange(1, m + 1)
    sources = np.setdiff1d(every, reader)
    unread = np.setdiff1d(every, number[tasks.tensors.source[tensor]])
    n_tensors = len(tasks.tensors.source)
    source = np.concatenate([number[tasks.tensors.source], [0], unread])
    first, last = np.full(len(sources), n_tensors), n_tensors + 1 + np.arange(len(unread))
    tensor = np.concatenate([tensor, first, last])
    reader = np.concatenate([reader, sources, np.full(len(unread), m + 1)])
    used, tensor = np.unique(tensor, return_inverse=True)
    by_maker = np.argsort(source[used], kind="stable")
    tensor = np.argsort(by_maker)[tensor]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(tensor))])
    nothing = np.zeros(len(used), dtype=np.int64)
    readers = reader[np.lexsort((reader, tensor))]
    tensors = Tensors(source[used][by_maker], nothing, nothing, offsets, readers)
    moved = np.concatenate([tasks.transfer_ms, np.zeros((1 + len(unread), d, d))])[used][by_maker]
    begin, end = tasks.unit.max() + np.array([1, 2])
    unit = np.concatenate([[begin], tasks.unit[core], [end]])
    return Tasks(
        unit, np.pad(tasks.ms[core], ((1, 1), (0, 0))), tensors, np.arange(len(used)), moved
    )


def find_borders(tasks: Tasks) -> IntArray:
    """Tasks that no reading bypasses: all others come before or after them.

    Args:
        tasks: In topological order, with one first and one last task.
    """
    n = len(tasks)
    _, maker, reader = tasks.readings
    begun, done = np.bincount(maker + 1, minlength=n), np.bincount(reader, minlength=n)
    return np.flatnonzero(np.cumsum(begun - done) == 0)


def select_tasks(tasks: Tasks, first: int, last: int) -> tuple[Tasks, IntArray]:
    """The tasks from one border to the next; the first one takes no time.

    Returns:
        The tasks, whose first one is a unit of its own; and (n_units,) the former unit of each.
    """
    begin, end = np.searchsorted(tasks.tensors.source, [first, last])
    offsets = tasks.tensors.offsets[begin : end + 1]
    readers = tasks.tensors.readers[offsets[0] : offsets[-1]] - first
    source = tasks.tensors.source[begin:end] - first
    nothing = np.zeros(end - begin, dtype=np.int64)
    tensors = Tensors(source, nothing, nothing, offsets - offsets[0], readers)
    ms = tasks.ms[first : last + 1].copy()
    ms[0] = 0.0
    former, unit = np.unique(tasks.unit[first + 1 : last + 1], return_inverse=True)
    unit = np.concatenate([[len(former)], unit])
    own = Tasks(unit, ms, tensors, np.arange(end - begin), tasks.transfer_ms[begin:end])
    return own, np.concatenate([former, tasks.unit[[first]]])
