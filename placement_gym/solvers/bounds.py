"""Lower bounds: what no placement can beat, however it is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placement_gym.arrays import FloatArray
from placement_gym.costs.semantics import Semantics
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.cuts import minimum_cut
from placement_gym.solvers.linear import Linear
from placement_gym.solvers.milp import placed, serial_program
from placement_gym.solvers.solution import Solution
from placement_gym.solvers.tasks import Tasks

HARD_LIMITS = ("static", "lifetime")


def lower_bound(
    problem: Problem, costs: CostTable, semantics: Semantics, time_limit_s: float = 10.0
) -> Solution:
    """The best bound that there is a method for; for serial schedules with its placement.

    Serial: a minimum cut, or the mixed-integer program. Overlapping schedules: the longer of the
    path with transfers and the balanced load. Calls: that path. Loads: the balanced load.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Of the units' operators.
        semantics: What the latency means.
        time_limit_s: For the program.
    """
    if semantics.memory not in HARD_LIMITS or semantics.memory_penalty_ms_per_gb is not None:
        problem = unlimited(problem)
    if semantics.schedule == "serial":
        return serial(problem, costs, time_limit_s)
    bounds = []
    if semantics.schedule in ("event", "list", "load"):
        bounds.append(load_ms(problem, costs, time_limit_s))
    if semantics.schedule in ("event", "list"):
        bounds.append(path_ms(problem, costs))
    if semantics.schedule == "calls":
        bounds.append(float(heads(problem, called(problem, costs)).max()))
    return Solution(None, max(bounds), proven=False)


def serial(problem: Problem, costs: CostTable, time_limit_s: float) -> Solution:
    """The minimum cut where it is exact, else the mixed-integer program."""
    two = len(problem.devices) == 2 and problem.supports_all and not problem.limited
    if two and not costs.submodel_ms.any():
        return minimum_cut(problem.units, costs)
    return serial_program(problem, costs, time_limit_s)


def critical_path_ms(problem: Problem, costs: CostTable) -> float:
    """The longest path if every operator had its fastest device and transfers took no time."""
    tasks = Tasks.of_operators(problem.units, costs)
    return float(heads(problem, replace(tasks, transfer_ms=0.0 * tasks.transfer_ms)).max())


def path_ms(problem: Problem, costs: CostTable) -> float:
    """The longest path, transfers included, if each of its operators could choose its device."""
    return float(heads(problem, Tasks.of_operators(problem.units, costs)).max())


def heads(problem: Problem, tasks: Tasks) -> FloatArray:
    """(n_tasks,) before when no placement has a task done.

    head[v, d] = ms[v, d] + max over inputs u of min over d' of head[u, d'] + transfer, and the
    least of them counts.
    """
    finish = np.where(problem.possible[tasks.unit], tasks.ms, np.inf)
    ready = np.zeros_like(finish)
    tensor, reader = tasks.tensors.readings()
    maker = tasks.tensors.source[tensor]
    for r in np.argsort(maker, kind="stable"):
        done = ready[maker[r]] + finish[maker[r]]
        arrival = (done[:, None] + tasks.transfer_ms[tensor[r]]).min(axis=0)
        ready[reader[r]] = np.maximum(ready[reader[r]], arrival)
    least: FloatArray = (ready + finish).min(axis=1)
    return least


def tails(problem: Problem, tasks: Tasks) -> FloatArray:
    """(n_tasks,) how long any placement needs at least once a task has been computed."""
    fastest = np.where(problem.possible[tasks.unit], tasks.ms, np.inf).min(axis=1)
    rest = np.zeros(len(tasks))
    tensor, reader = tasks.tensors.readings()
    maker = tasks.tensors.source[tensor]
    for r in np.argsort(-maker, kind="stable"):
        rest[maker[r]] = max(rest[maker[r]], fastest[reader[r]] + rest[reader[r]])
    return rest


def called(problem: Problem, costs: CostTable) -> Tasks:
    """Operators whose tensors leave one device and enter the other, as calls pay for them."""
    tasks = Tasks.of_operators(problem.units, costs)
    border_ms = costs.boundary_ms[tasks.tensor]
    apart = ~np.eye(len(problem.devices), dtype=bool)
    return replace(tasks, transfer_ms=(border_ms[:, :, None] + border_ms[:, None, :]) * apart)


def load_ms(problem: Problem, costs: CostTable, time_limit_s: float = 60.0) -> float:
    """The least largest load if units could be divided, within memory limits."""
    program = Linear()
    x = placed(program, problem, whole=False)
    largest = program.variables(1, cost=1.0)
    d = len(problem.devices)
    work: FloatArray = costs.unit_ms(problem.units).T
    program.require((x.T, work), (np.repeat(largest, d), -1.0), rows=d)
    return program.minimum(time_limit_s).bound


def unlimited(problem: Problem) -> Problem:
    """The same problem on devices without memory limits."""
    free = (replace(device, memory_bytes=None, weight_share=None) for device in problem.devices)
    return replace(problem, devices=tuple(free))
