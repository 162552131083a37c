"""Latency with accelerators called like functions: greedy filling, and a mixed-integer program.

The objective of Tarnawski et al. (2020, section 6), schedule ``"calls"``.
"""

from __future__ import annotations

import numpy as np

from placement_gym.backends.simulated import uint8
from placement_gym.backends.simulated.semantics import PRESETS
from placement_gym.backends.simulated.simulator import Simulator
from placement_gym.costs.table import CostTable
from placement_gym.graph.operators import IntArray
from placement_gym.problem import Problem
from placement_gym.solvers.bounds import heads, tails
from placement_gym.solvers.ideals import interchangeable
from placement_gym.solvers.linear import Linear
from placement_gym.solvers.milp import chosen, placed
from placement_gym.solvers.solution import Solution
from placement_gym.solvers.tasks import Tasks


def greedy_fill(problem: Problem, costs: CostTable) -> IntArray:
    """(n_units,) by filling one accelerator after another in topological order.

    What no accelerator has room for or supports goes to the first host.
    """
    room = problem.limits_bytes.copy()
    accelerators = np.flatnonzero(~costs.host)
    device = np.full(problem.n_units, costs.host.argmax())
    at = 0
    for unit, held in enumerate(problem.unit_bytes):
        while at < len(accelerators) and held > room[accelerators[at]]:
            at += 1
        if at < len(accelerators) and problem.supported[unit, accelerators[at]]:
            device[unit] = accelerators[at]
            room[accelerators[at]] -= held
    return device


def call_program(
    problem: Problem, costs: CostTable, start: IntArray, time_limit_s: float = 60.0
) -> Solution:
    """Minimise the latency of calls, one for each accelerator, under support and memory limits.

    The bound holds for placements that call every accelerator once.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Of the units' operators; hosts have cores without end.
        start: (n_units,) a feasible placement; nothing slower is looked for.
        time_limit_s: Then the best placement so far and the bound are returned.
    """
    simulator = Simulator(problem.units, costs, PRESETS["tarnawski-latency"])
    known_ms = simulator.latency_ms(uint8(start))
    program, x = calls(problem, costs, known_ms)
    begin = x[np.arange(len(x)), start], np.ones(len(x))
    found = program.minimum(time_limit_s, begin)
    best, best_ms = start, known_ms
    if found.values is not None:
        assignment = chosen(found.values, x)
        latency_ms = simulator.latency_ms(uint8(assignment))
        if latency_ms < best_ms:
            best, best_ms = assignment, latency_ms
    bound_ms = min(found.bound, best_ms)
    return Solution(best, bound_ms, proven=bound_ms >= best_ms * (1 - 1e-4))


def calls(problem: Problem, costs: CostTable, most_ms: float) -> tuple[Linear, IntArray]:
    """The program, and the columns x[u, d] that place a unit.

    ``done`` is when a task's outputs exist. An accelerator starts when all tensors that enter it
    are done, and finishes with its units' times and those of tensors that enter or leave it; then
    all its tasks are done. ``path`` tightens the relaxation: the time of a task if its accelerator
    worked task by task, which can be no later.

    Args:
        problem: As for ``call_program``.
        costs: As for ``call_program``.
        most_ms: No time is longer.
    """
    tasks = Tasks.ordered(problem.units, costs)
    tensor, reader = tasks.tensors.readings()
    maker = tasks.tensors.source
    hosts, accelerators = np.flatnonzero(costs.host), np.flatnonzero(~costs.host)
    n, t, r, a = len(tasks), len(maker), len(tensor), len(accelerators)
    border_ms = costs.boundary_ms[tasks.tensor][:, accelerators]
    program = Linear()
    x = placed(program, problem)
    on = x[tasks.unit]
    called, hosted = on[:, accelerators], on[:, hosts]
    enters, leaves, fetches = (program.variables(size, a, upper=1.0) for size in (t, t, r))
    early, late = heads(problem, tasks), most_ms - tails(problem, tasks)
    done, path = (program.variables(n, lower=early, upper=late) for _ in range(2))
    start, finish = (program.variables(a, upper=most_ms) for _ in range(2))
    total = program.variables(1, cost=1.0, upper=most_ms)

    made, read = called[maker[tensor]], called[reader]
    program.require((read, 1.0), (made, -1.0), (enters[tensor], -1.0), rows=r * a)
    program.require((read, 1.0), (made, -1.0), (fetches, -1.0), rows=r * a)
    program.require((made, 1.0), (read, -1.0), (leaves[tensor], -1.0), rows=r * a)
    program.require(
        (start, 1.0),
        (finish, -1.0),
        (x[:, accelerators].T, costs.unit_ms(problem.units)[:, accelerators].T),
        (enters.T, border_ms.T),
        (leaves.T, border_ms.T),
        rows=a,
    )
    waits = across(done[maker], a), 1.0
    slack = np.repeat(late[maker], a)
    program.require(
        waits, (down(start, t), -1.0), (enters, slack.reshape(t, a)), rows=t * a, high=slack
    )
    ends, slack = (down(finish, n), 1.0), np.repeat(most_ms - early, a)
    program.require(
        ends, (across(done, a), -1.0), (called, slack.reshape(n, a)), rows=n * a, high=slack
    )
    host_ms = tasks.ms[:, hosts]
    program.require((hosted, host_ms), (done, -1.0), rows=n)
    program.require(
        (done[maker[tensor]], 1.0), (hosted[reader], host_ms[reader]), (done[reader], -1.0), rows=r
    )
    program.require((on, tasks.ms), (path, -1.0), rows=n)
    program.require(
        (path[maker[tensor]], 1.0),
        (on[reader], tasks.ms[reader]),
        (leaves[tensor], border_ms[tensor]),
        (fetches, border_ms[tensor]),
        (path[reader], -1.0),
        rows=r,
    )
    program.require((path, 1.0), (done, -1.0), rows=n)
    program.require((done, 1.0), (np.repeat(total, n), -1.0), rows=n)
    program.require((finish, 1.0), (np.repeat(total, a), -1.0), rows=a)
    position = {device: i for i, device in enumerate(accelerators.tolist())}
    for group in interchangeable(problem, costs):
        alike = start[[position[device] for device in group if device in position]]
        program.require((alike[:-1], 1.0), (alike[1:], -1.0), rows=max(len(alike) - 1, 0))
    return program, x


def across(columns: IntArray, n: int) -> IntArray:
    """(m, n): each of (m,) columns n times."""
    return np.broadcast_to(columns[:, None], (len(columns), n))


def down(columns: IntArray, n: int) -> IntArray:
    """(n, m): (m,) columns n times."""
    return np.broadcast_to(columns, (n, len(columns)))
