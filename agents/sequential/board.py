"""What the sequential decoder reads of a problem, beyond what the list scheduler reads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from agents.sequential.plans import make_plans
from agents.sequential.schedule import find_innermost, find_measured_objective
from placement_gym.arrays import FloatArray, IntArray
from placement_gym.backends.protocol import Backend
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.decoder import NOWHERE, Decoder
from placement_gym.solvers.tasks import Tasks

FINISH, ADDED, LOAD = range(3)
"""What the greedy choice minimises: earliest finish, added cost, or largest load."""
GOALS = {"serial": ADDED, "load": LOAD}
"""Goals by schedule; where devices overlap, the earliest finish."""


class Board(NamedTuple):
    """A problem for the decoder; tasks are in rank order, as in ``Decoder``.

    Attributes:
        decoder: What the list scheduler reads.
        goal: ``FINISH``, ``ADDED`` or ``LOAD``.
        boundary_ms: (n_tensors, n_devices) times between devices and the host's memory.
        mean_ms: (n_tensors,) transfer between two devices, on average.
        child: (n_tasks,) the first task that reads from each, or ``NOWHERE``.
        child_tensor: (n_tasks,) the tensor that it reads.
        tail_ms: (n_tasks,) longest path at mean costs after each task.
        work_ms: (n_tasks,) work from each task on, at the fastest devices, over their number.
        bytes_left: (n_tasks,) memory of the units that are decided from each task on.
        plans: (n_plans, n_units) devices, see ``make_plans``.
        plan_ms: (n_plans,) what they cost in the decoder's model, see ``rate_plans``.
        plan: (n_units,) the cheapest of them.
        planned_bytes: (n_devices,) memory of the units that it puts on each device.
    """

    decoder: Decoder
    goal: int
    boundary_ms: FloatArray
    mean_ms: FloatArray
    child: IntArray
    child_tensor: IntArray
    tail_ms: FloatArray
    work_ms: FloatArray
    bytes_left: FloatArray
    plans: IntArray
    plan_ms: FloatArray
    plan: IntArray
    planned_bytes: FloatArray

    @classmethod
    def of(cls, problem: Problem, costs: CostTable, goal: int = FINISH) -> Board:
        """Make the board of a problem, whose plans are not rated yet."""
        decoder = Decoder.of(problem, costs)
        tasks = Tasks.in_topological_order(problem.units, costs)
        n_devices = len(problem.devices)
        pairs = max(n_devices * (n_devices - 1), 1)
        mean_ms = tasks.transfer_ms.sum(axis=(1, 2)) / pairs
        child, child_tensor, tail_ms = look_ahead(decoder, mean_ms)
        first = np.unique(decoder.unit, return_index=True)[1]
        decided = np.zeros(len(decoder.unit))
        decided[first] = decoder.unit_bytes
        fastest = decoder.ms.min(axis=1) / n_devices
        return cls(
            decoder=decoder,
            goal=goal,
            boundary_ms=np.ascontiguousarray(costs.boundary_ms[tasks.tensor]),
            mean_ms=mean_ms,
            child=child,
            child_tensor=child_tensor,
            tail_ms=tail_ms,
            work_ms=np.cumsum(fastest[::-1])[::-1].copy(),
            bytes_left=np.cumsum(decided[::-1])[::-1].copy(),
            plans=(plans := make_plans(problem, costs)),
            plan_ms=np.ones(len(plans)),
            plan=plans[0],
            planned_bytes=np.zeros(n_devices),
        ).rate(np.ones(len(plans)))

    def rate(self, plan_ms: FloatArray) -> Board:
        """The board with the cheapest plan, by what the (n_plans,) plans cost."""
        plan, held = self.plans[plan_ms.argmin()].copy(), self.decoder.unit_bytes
        planned_bytes = np.zeros(len(self.planned_bytes))
        np.add.at(planned_bytes, plan, held)
        return self._replace(plan_ms=plan_ms, plan=plan, planned_bytes=planned_bytes)


def choose_goal(backend: Backend) -> int:
    """What the greedy choice minimises under a backend's schedule; HETERO's, if it measures."""
    if find_measured_objective(backend) == "throughput":
        return GOALS["load"]
    semantics = getattr(find_innermost(backend), "semantics", None)
    return ADDED if semantics is None else GOALS.get(semantics.schedule, FINISH)


@njit(cache=True, nogil=True, error_model="numpy")
def look_ahead(decoder: Decoder, mean_ms: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """``child``, ``child_tensor`` and ``tail_ms`` of a board."""
    n_tasks = len(decoder.unit)
    child = np.full(n_tasks, NOWHERE, np.int64)
    child_tensor = np.full(n_tasks, NOWHERE, np.int64)
    tail_ms = np.zeros(n_tasks)
    for task in range(n_tasks - 1, -1, -1):
        path_ms = decoder.ms[task].mean() + tail_ms[task]
        for reading in range(decoder.first[task], decoder.first[task + 1]):
            maker, tensor = decoder.maker[reading], decoder.tensor[reading]
            tail_ms[maker] = max(tail_ms[maker], mean_ms[tensor] + path_ms)
            child[maker], child_tensor[maker] = task, tensor
    return child, child_tensor, tail_ms
