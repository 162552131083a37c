"""Latency with accelerators called like functions: greedy filling, and a mixed-integer program.

The objective of Tarnawski et al. (2020, section 6), schedule ``"calls"``.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.bounds import call_tasks
from placement_gym.solvers.highs import minimize
from placement_gym.solvers.kinds import interchangeable_devices
from placement_gym.solvers.linear import Linear
from placement_gym.solvers.milp import add_placement, read_assignment
from placement_gym.solvers.solution import Solution, reaches
from placement_gym.solvers.tasks import Tasks, earliest_finish_ms, remaining_ms

FAR = 1e3
"""A placement this many times faster than the known one makes the program worth solving again, with
tighter limits."""
Schedule = tuple[float, FloatArray, FloatArray]


def greedy_fill(problem: Problem, costs: CostTable, order: IntArray | None = None) -> IntArray:
    """Fill one accelerator after another in topological order.

    A unit that the current accelerator does not support or has no room for goes to a host, or
    else to any accelerator that can hold it, or else to where the most room is left.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Which devices are hosts.
        order: (n_units,) units in the order in which they are placed; None takes their own.

    Returns:
        (n_units,) device of each unit.
    """
    room, shared = problem.limits_bytes.copy(), problem.memory.shared
    hosts, accelerators = np.flatnonzero(costs.host), np.flatnonzero(~costs.host)
    device = np.zeros(problem.n_units, dtype=np.int64)
    at = 0
    for unit in range(problem.n_units) if order is None else order:
        held = problem.unit_bytes[unit]
        while at < len(accelerators) - 1 and held > room[accelerators[at]]:
            at += 1
        choices = np.concatenate([accelerators[at : at + 1], hosts, accelerators])
        fits = problem.supported[unit, choices] & (held <= room[choices])
        if fits.any():
            device[unit] = choices[fits.argmax()]
        else:
            device[unit] = np.where(problem.supported[unit], room, -np.inf).argmax()
        room[shared[device[unit]]] -= held
    return device


def call_program(
    problem: Problem,
    costs: CostTable,
    start: IntArray,
    schedule: Callable[[IntArray], Schedule],
    time_limit_s: float = 60.0,
    n_calls: int = 1,
) -> Solution:
    """Minimise the latency of calls under support and memory limits.

    The bound holds for placements that call no accelerator more than ``n_calls`` times. The program
    may also end a call early to return outputs, which the schedule does not: with several calls its
    optimum may be below the latency of every placement, and is then not proven.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators; hosts have unlimited cores.
        start: (n_units,) an assignment; if it is feasible, only faster ones are searched for.
        schedule: Runs an (n_units,) assignment under schedule ``"calls"``; returns its latency
            and (n_operators,) start and finish of each operator, in ms.
        time_limit_s: Wall-clock limit, after which the best placement so far and the bound are
            returned.
        n_calls: Maximum number of calls of each accelerator.
    """
    end = perf_counter() + time_limit_s
    feasible = not problem.infeasibility(start)
    latency_ms, starts_ms, _ = schedule(start)
    best, best_ms = (start, latency_ms) if feasible else (None, np.inf)
    tasks, accelerators = call_tasks(problem, costs), np.flatnonzero(~costs.host)
    # Running everything one after another, each tensor out of one call and into all others, is
    # slower than any schedule; it takes the place of a latency while none is known.
    passes_ms = (1 + n_calls) * costs.boundary_ms.sum()
    slowest_ms = float(costs.operator_ms.max(axis=1).sum() + passes_ms)
    while True:
        # Every time in the program is at most `limit_ms`, which multiplies decisions in its rows:
        # the closer it is to the optimum, the tighter is the relaxation.
        limit_ms = min(best_ms, slowest_ms)
        program, x, calling = build_call_program(problem, costs, tasks, limit_ms, n_calls)
        begin = None
        if best is not None:
            call = call_indices(costs, best[tasks.unit], starts_ms)
            if call.max() < n_calls:
                called = np.flatnonzero(call >= 0)
                at = np.searchsorted(accelerators, best[tasks.unit[called]]), call[called]
                ones = x[np.arange(len(x)), best], calling[called, *at]
                begin = np.unique(np.concatenate(ones)), 1.0
        found = minimize(program, max(end - perf_counter(), 0.1), begin)
        if found.values is not None:
            assignment = read_assignment(found.values, x)
            latency_ms, starts, _ = schedule(assignment)
            if latency_ms < best_ms and not problem.infeasibility(assignment):
                best, best_ms, starts_ms = assignment, latency_ms, starts
        bound_ms = min(found.bound, best_ms)
        # Only a much better placement makes it worth building the program again with a tighter
        # limit.
        proven = reaches(best_ms, bound_ms)
        if proven or perf_counter() > end or best_ms * FAR > limit_ms:
            return Solution(best, bound_ms, proven)


def call_indices(costs: CostTable, device: IntArray, starts_ms: FloatArray) -> IntArray:
    """(n_tasks,) index of the call that runs each task, counted per accelerator; -1 on hosts."""
    call = np.full(len(device), -1)
    for accelerator in np.flatnonzero(~costs.host):
        mine = device == accelerator
        call[mine] = np.unique(starts_ms[mine], return_inverse=True)[1]
    return call


def build_call_program(
    problem: Problem, costs: CostTable, tasks: Tasks, limit_ms: float, n_calls: int = 1
) -> tuple[Linear, IntArray, IntArray]:
    """Build the program.

    ``done`` is when a task's outputs exist. A call starts when all tensors that enter it are done;
    it takes the time of its tasks and of the tensors that enter or leave it, and then all its
    tasks are done. ``path`` tightens the relaxation: when a task would be done if its accelerator
    returned each output at once, which is never later.

    Args:
        problem: As for ``call_program``.
        costs: As for ``call_program``.
        tasks: Tasks in topological order.
        limit_ms: Upper bound of every time.
        n_calls: Maximum number of calls of each accelerator.

    Returns:
        The program; (n_units, n_devices) columns x that place a unit; and (n_tasks, n_accelerators,
        n_calls) columns that choose the call of a task, which with one call are those of its unit.
    """
    tensor, reader = tasks.tensors.readings()
    maker = tasks.tensors.source
    hosts, accelerators = np.flatnonzero(costs.host), np.flatnonzero(~costs.host)
    callee = np.repeat(accelerators, n_calls)
    n, t, r, a = len(tasks), len(maker), len(tensor), len(callee)
    border_ms = costs.boundary_ms[tasks.tensor][:, callee]
    early = earliest_finish_ms(problem, tasks)
    program = Linear(about_ms=float(early.max()))
    x = add_placement(program, problem)
    on = x[tasks.unit]
    hosted, calling = on[:, hosts], on[:, accelerators]
    # Each task of an accelerator is in one of its calls; the next one starts when one has finished.
    if n_calls > 1:
        calls = program.variables(n, len(accelerators), n_calls, upper=1.0, whole=True)
        program.require((calls, 1.0), (calling, -1.0), rows=calling.size, low=0.0)
        calling = calls.reshape(n, a)
    # For each tensor and call: it comes in, it goes out; for each reading: it comes back for it.
    enters, leaves, fetches = (program.variables(size, a, upper=1.0) for size in (t, t, r))
    late = limit_ms - remaining_ms(problem, tasks)
    done = program.variables(n, lower=early, upper=limit_ms, in_ms=True)
    path = program.variables(n, lower=early, upper=late, in_ms=True)
    start, finish = (program.variables(a, upper=limit_ms, in_ms=True) for _ in range(2))
    total = program.variables(1, cost=1.0, upper=limit_ms, in_ms=True)

    # A call that reads a tensor without making it fetches it, one that makes it and is not the only
    # one to read it returns it.
    made, read = calling[maker[tensor]], calling[reader]
    program.require((read, 1.0), (made, -1.0), (enters[tensor], -1.0), rows=r * a)
    program.require((read, 1.0), (made, -1.0), (fetches, -1.0), rows=r * a)
    program.require((made, 1.0), (read, -1.0), (leaves[tensor], -1.0), rows=r * a)
    # A call lasts as long as its tasks and the tensors that cross its border.
    program.require(
        (start, 1.0),
        (finish, -1.0),
        (calling.T, tasks.ms[:, callee].T),
        (enters.T, border_ms.T),
        (leaves.T, border_ms.T),
        rows=a,
        low=0.0,
    )
    follows = np.flatnonzero(callee[1:] == callee[:-1])
    program.require((finish[follows], 1.0), (start[follows + 1], -1.0), rows=len(follows))
    # It starts when what enters it is done: a row that binds only where the tensor enters.
    waits = repeat_across(done[maker], a), 1.0
    program.require(
        waits, (repeat_down(start, t), -1.0), (enters, limit_ms), rows=t * a, high=limit_ms
    )
    # All its outputs exist when it ends: binding only for its own tasks.
    ends, slack = (repeat_down(finish, n), 1.0), np.repeat(limit_ms - early, a)
    program.require(
        ends, (repeat_across(done, a), -1.0), (calling, slack.reshape(n, a)), rows=n * a, high=slack
    )
    # Tasks of hosts run as soon as their inputs are done, as cores are unlimited.
    host_ms = tasks.ms[:, hosts]
    program.require((hosted, host_ms), (done, -1.0), rows=n)
    program.require(
        (done[maker[tensor]], 1.0), (hosted[reader], host_ms[reader]), (done[reader], -1.0), rows=r
    )
    # `path` has no large factors, unlike the rows above: it is what gives the relaxation its value.
    program.require((on, tasks.ms), (path, -1.0), rows=n)
    program.require(
        (path[maker[tensor]], 1.0),
        (on[reader], tasks.ms[reader]),
        (leaves[tensor], border_ms[tensor]),
        (fetches, border_ms[tensor]),
        (path[reader], -1.0),
        rows=r,
    )
    # The latency is the end of everything.
    program.require((path, 1.0), (done, -1.0), rows=n)
    program.require((done, 1.0), (np.repeat(total, n), -1.0), rows=n)
    program.require((finish, 1.0), (np.repeat(total, a), -1.0), rows=a)
    # Devices that are interchangeable would repeat every solution: their calls are ordered.
    position = {device: i * n_calls for i, device in enumerate(accelerators.tolist())}
    for group in interchangeable_devices(problem, costs):
        alike = start[[position[device] for device in group if device in position]]
        program.require((alike[:-1], 1.0), (alike[1:], -1.0), rows=max(len(alike) - 1, 0))
    return program, x, calling.reshape(n, len(accelerators), n_calls)


def repeat_across(columns: IntArray, n: int) -> IntArray:
    """(m, n): row i repeats column i of (m,) columns."""
    return np.broadcast_to(columns[:, None], (len(columns), n))


def repeat_down(columns: IntArray, n: int) -> IntArray:
    """(n, m): every row is the same (m,) columns."""
    return np.broadcast_to(columns, (n, len(columns)))
