"""Latency with accelerators called like functions: greedy filling, and a mixed-integer program.

The objective of Tarnawski et al. (2020, section 6), schedule ``"calls"``.
"""

from __future__ import annotations

import numpy as np

from placement_gym.backends.simulated import uint8
from placement_gym.backends.simulated.semantics import PRESETS
from placement_gym.backends.simulated.simulator import Simulator
from placement_gym.costs.table import CostTable, FloatArray
from placement_gym.graph.operators import IntArray
from placement_gym.problem import Problem
from placement_gym.solvers.bounds import called, heads, tails
from placement_gym.solvers.ideals import interchangeable
from placement_gym.solvers.linear import Linear
from placement_gym.solvers.milp import chosen, placed
from placement_gym.solvers.solution import Solution
from placement_gym.solvers.tasks import Tasks


def greedy_fill(problem: Problem, costs: CostTable, order: IntArray | None = None) -> IntArray:
    """(n_units,) by filling one accelerator after another in topological order.

    What no accelerator has room for or supports goes to the first host.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Which devices are hosts.
        order: (n_units,) units in the order in which they are placed; None takes their own.
    """
    room = problem.limits_bytes.copy()
    accelerators = np.flatnonzero(~costs.host)
    device = np.full(problem.n_units, costs.host.argmax())
    at = 0
    for unit in range(problem.n_units) if order is None else order:
        held = problem.unit_bytes[unit]
        while at < len(accelerators) and held > room[accelerators[at]]:
            at += 1
        if at < len(accelerators) and problem.supported[unit, accelerators[at]]:
            device[unit] = accelerators[at]
            room[accelerators[at]] -= held
    return device


def call_program(
    problem: Problem,
    costs: CostTable,
    start: IntArray,
    time_limit_s: float = 60.0,
    calls_each: int = 1,
) -> Solution:
    """Minimise the latency of calls under support and memory limits.

    The bound holds for placements that call no accelerator more often than ``calls_each``. With
    more than one the program may end a call where nothing forces it to, which the schedule does
    not do: its placement is then a good one, no more.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Of the units' operators; hosts have cores without end.
        start: (n_units,) a feasible placement; nothing slower is looked for.
        time_limit_s: Then the best placement so far and the bound are returned.
        calls_each: Calls of each accelerator, one after another.
    """
    simulator = Simulator(problem.units, costs, PRESETS["tarnawski-latency"])
    known_ms, starts_ms, _ = simulator.schedule(uint8(start))
    tasks = called(problem, costs)
    program, x, y = calls(problem, costs, tasks, known_ms, calls_each)
    call = calls_of(costs, start[tasks.unit], starts_of(problem, tasks, starts_ms))
    begin = None
    if call.max() < calls_each:
        accelerated = np.flatnonzero(call >= 0)
        number = np.cumsum(~costs.host) - 1
        slot = number[start[tasks.unit]] * calls_each + call
        columns = [x[np.arange(len(x)), start], y[accelerated, slot[accelerated]]]
        begin = np.concatenate(columns), np.ones(sum(map(len, columns)))
    found = program.minimum(time_limit_s, begin)
    best, best_ms = start, known_ms
    if found.values is not None:
        assignment = chosen(found.values, x)
        latency_ms = simulator.latency_ms(uint8(assignment))
        if latency_ms < best_ms:
            best, best_ms = assignment, latency_ms
    bound_ms = min(found.bound, best_ms)
    return Solution(best, bound_ms, proven=bound_ms >= best_ms * (1 - 1e-4))


def starts_of(problem: Problem, tasks: Tasks, starts_ms: FloatArray) -> FloatArray:
    """(n_tasks,) when each task starts, from (n_operators,) of its operators."""
    if len(tasks) == len(starts_ms):
        return starts_ms
    first = np.full(len(tasks), np.inf)
    np.minimum.at(first, problem.units.of_operator, starts_ms)
    return first


def calls_of(costs: CostTable, device: IntArray, starts_ms: FloatArray) -> IntArray:
    """(n_tasks,) the how manieth call of its accelerator runs each task; -1 on hosts."""
    call = np.full(len(device), -1)
    for accelerator in np.flatnonzero(~costs.host):
        mine = device == accelerator
        call[mine] = np.unique(starts_ms[mine], return_inverse=True)[1]
    return call


def calls(
    problem: Problem, costs: CostTable, tasks: Tasks, most_ms: float, calls_each: int
) -> tuple[Linear, IntArray, IntArray]:
    """The program, the columns x[u, d] that place a unit and y[v, c] that give a task its call.

    ``done`` is when a task's outputs exist. An accelerator starts when all tensors that enter it
    are done, and finishes with its units' times and those of tensors that enter or leave it; then
    all its tasks are done. ``path`` tightens the relaxation: the time of a task if its accelerator
    worked task by task, which can be no later.

    Args:
        problem: As for ``call_program``.
        costs: As for ``call_program``.
        tasks: In topological order.
        most_ms: No time is longer.
        calls_each: As for ``call_program``; calls of an accelerator lie side by side in y.
    """
    tensor, reader = tasks.tensors.readings()
    maker = tasks.tensors.source
    hosts, accelerators = np.flatnonzero(costs.host), np.flatnonzero(~costs.host)
    owner = np.repeat(accelerators, calls_each)
    n, t, r, a = len(tasks), len(maker), len(tensor), len(owner)
    border_ms = costs.boundary_ms[tasks.tensor][:, owner]
    program = Linear()
    x = placed(program, problem)
    calling = program.variables(n, a, upper=1.0, whole=True)
    on = x[tasks.unit]
    hosted, accelerated = on[:, hosts], on[:, accelerators]
    mine = calling.reshape(n, len(accelerators), calls_each)
    program.require((mine, 1.0), (accelerated, -1.0), rows=accelerated.size, low=0.0)
    enters, leaves, fetches = (program.variables(size, a, upper=1.0) for size in (t, t, r))
    early, late = heads(problem, tasks), most_ms - tails(problem, tasks)
    done, path = (program.variables(n, lower=early, upper=late) for _ in range(2))
    start, finish = (program.variables(a, upper=most_ms) for _ in range(2))
    total = program.variables(1, cost=1.0, upper=most_ms)

    made, read = calling[maker[tensor]], calling[reader]
    program.require((read, 1.0), (made, -1.0), (enters[tensor], -1.0), rows=r * a)
    program.require((read, 1.0), (made, -1.0), (fetches, -1.0), rows=r * a)
    program.require((made, 1.0), (read, -1.0), (leaves[tensor], -1.0), rows=r * a)
    program.require(
        (start, 1.0),
        (finish, -1.0),
        (calling.T, tasks.ms[:, owner].T),
        (enters.T, border_ms.T),
        (leaves.T, border_ms.T),
        rows=a,
        low=0.0,
    )
    waits = across(done[maker], a), 1.0
    slack = np.repeat(late[maker], a)
    program.require(
        waits, (down(start, t), -1.0), (enters, slack.reshape(t, a)), rows=t * a, high=slack
    )
    ends, slack = (down(finish, n), 1.0), np.repeat(most_ms - early, a)
    program.require(
        ends, (across(done, a), -1.0), (calling, slack.reshape(n, a)), rows=n * a, high=slack
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
    begins, ends_of = (block.reshape(-1, calls_each) for block in (start, finish))
    following = begins[:, 1:]
    program.require((ends_of[:, :-1], 1.0), (following, -1.0), rows=following.size)
    position = {device: i for i, device in enumerate(accelerators.tolist())}
    for group in interchangeable(problem, costs):
        alike = begins[[position[device] for device in group if device in position], 0]
        program.require((alike[:-1], 1.0), (alike[1:], -1.0), rows=max(len(alike) - 1, 0))
    return program, x, calling


def across(columns: IntArray, n: int) -> IntArray:
    """(m, n): each of (m,) columns n times."""
    return np.broadcast_to(columns[:, None], (len(columns), n))


def down(columns: IntArray, n: int) -> IntArray:
    """(n, m): (m,) columns n times."""
    return np.broadcast_to(columns, (n, len(columns)))
