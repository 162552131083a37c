"""Serial placements under limits, by a mixed-integer linear program that HiGHS solves."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from placement_gym.base import FloatArray, IntArray, now_s
from placement_gym.graph import acyclic_submodels, submodel_devices
from placement_gym.problem import MemoryGroups, Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers.linear import GAP, Linear, minimize
from placement_gym.solvers.solution import Solution, reaches
from placement_gym.solvers.tasks import Tasks, fastest_ms


def serial_program(
    problem: Problem,
    costs: CostTable,
    time_limit_s: float = 60.0,
    gap: float = GAP,
    max_nodes: int | None = None,
) -> Solution:
    """Minimise the latency of a serial schedule under support and memory limits.

    Times and transfers, once per tensor and destination, are linear. The number of submodels is
    not: the program counts one per device in use, a lower bound, and is solved again without the
    placements found so far until none can be faster, unless ``max_nodes`` is given. Cheap submodels
    need few rounds.

    At the wall-clock limit, returns the best placement and bound so far. ``gap`` is the relative
    distance to the bound at which the solver stops; ``max_nodes`` limits search nodes, which unlike
    time is reproducible.
    """
    end = now_s() + time_limit_s
    tasks = Tasks.from_units(problem.units, costs)
    program, x = build_serial_program(problem, costs, tasks)
    best, best_ms = None, np.inf
    while True:
        result = minimize(program, max(end - now_s(), 0.1), gap=gap, max_nodes=max_nodes)
        bound_ms = min(result.bound, best_ms)
        in_time = now_s() < end and max_nodes is None
        # No other placement is better: the best one is the optimum.
        if result.values is None or bound_ms >= best_ms * (1 - gap):
            return Solution(best, bound_ms, reaches(best_ms, bound_ms, 2 * GAP))
        assignment = result.values[x].argmax(axis=1)
        if problem.infeasibility(assignment):  # by less than the solver's tolerance
            if not in_time:
                return Solution(best, bound_ms, proven=False)
            exclude(program, x, assignment)
            continue
        # The program counts one submodel per device: the true latency may be higher.
        latency_ms = tasks.serial_ms(assignment) + submodel_ms(problem, costs, assignment)
        if latency_ms < best_ms:
            best, best_ms = assignment, latency_ms
        bound_ms = min(result.bound, best_ms)
        # Without costs of submodels the program is exact; otherwise others may be faster.
        near = bound_ms >= best_ms * (1 - gap)
        if not costs.submodel_ms.any() or not result.proven or near or not in_time:
            return Solution(best, bound_ms, reaches(best_ms, bound_ms, 2 * GAP))
        program.about_ms = max(program.about_ms, result.bound)
        exclude(program, x, assignment)


def build_serial_program(
    problem: Problem, costs: CostTable, tasks: Tasks
) -> tuple[Linear, IntArray]:
    """Build the program; returns it with the columns x[u, d] that place a unit.

    z[t, a, b] moves tensor t from device a to b. A tensor with a reader on b and its maker
    elsewhere must arrive: sum_a z[t, a, b] >= x[reader, b] - x[maker, b], and z[t, a, b] <=
    x[maker, a].
    """
    tensor, reader = tasks.tensors.readings()
    maker, t, d = tasks.tensors.source, len(tasks.tensor), len(problem.devices)
    program = Linear(about_ms=float(fastest_ms(problem, tasks).sum()))
    x = add_placement(program, problem, cost=tasks.ms)
    z = program.variables(t, d, d, cost=tasks.transfer_ms, upper=~np.eye(d, dtype=bool))
    into, leaving = z[tensor].transpose(0, 2, 1), np.broadcast_to(x[maker][:, :, None], z.shape)
    program.require((x[reader], 1.0), (x[maker[tensor]], -1.0), (into, -1.0), rows=len(tensor) * d)
    program.require((z, 1.0), (leaving, -1.0), rows=z.size)
    if costs.submodel_ms.any():
        used = program.variables(d, cost=costs.submodel_ms, upper=1.0)
        computing = x[np.unique(problem.units.of_operator[~problem.units.graph.follows])]
        needed = np.broadcast_to(used, computing.shape)
        program.require((computing, 1.0), (needed, -1.0), rows=computing.size)
    return program, x


def add_placement(
    program: Linear, problem: Problem, cost: ArrayLike = 0.0, whole: bool = True
) -> IntArray:
    """(n_units, n_devices) columns that place every unit once, within support and memory limits.

    ``cost`` is (n_units, n_devices) or a number; ``whole`` units must not be divided. The last rows
    of the program are those of ``limit_memory``.
    """
    n, d = problem.possible.shape
    x = program.variables(n, d, cost=cost, upper=problem.possible, whole=whole)
    program.require((x, 1.0), rows=n, low=1.0, high=1.0)
    limit_memory(program, x, problem.unit_bytes, problem.memory)
    return x


def limit_memory(
    program: Linear, x: IntArray, unit_bytes: FloatArray, memory: MemoryGroups
) -> None:
    """Keep the (n,) bytes that columns place on each device or pool within limits.

    Adds a row for each of ``memory.limited``, in that order.
    """
    scale = max(unit_bytes.max(), 1.0)
    for group in memory.limited.tolist():
        held = x[:, memory.members(group)], unit_bytes[:, None] / scale
        program.require(held, rows=1, high=memory.limits_bytes[group] / scale)


def exclude(program: Linear, x: IntArray, assignment: IntArray) -> None:
    """Exclude one placement from the program."""
    same = x[np.arange(len(x)), assignment]
    program.require((same, 1.0), rows=1, high=len(x) - 1.0)


def submodel_ms(problem: Problem, costs: CostTable, assignment: IntArray) -> float:
    """Total cost of a placement's submodels, in ms."""
    if not costs.submodel_ms.any():
        return 0.0
    graph, on = problem.units.graph, assignment[problem.units.of_operator]
    return float(costs.submodel_ms[submodel_devices(graph, on, acyclic_submodels(graph, on))].sum())
