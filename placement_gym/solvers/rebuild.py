"""Rebuilding a block of units while all others stay: by list scheduling, or by a program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.levels.levels import Level
from placement_gym.solvers.levels.models import SERIAL, Operators, estimate_ms
from placement_gym.solvers.milp import build_serial_program, read_assignment, submodel_ms
from placement_gym.solvers.minimize import minimize
from placement_gym.solvers.programs import path_load
from placement_gym.solvers.solution import Solution, reaches
from placement_gym.solvers.tasks import Tasks

MAX_OPERATORS = 1_000
"""More are too many for a program."""

Program = Callable[[IntArray, BoolArray, float], Solution]
"""From (n_units,) devices, which units may move, and their latency in the model, to the best
placement of these units and whether it is proven to be; no assignment: nothing better was found."""


def make_program(
    problem: Problem,
    costs: CostTable,
    operators: Operators,
    model: int,
    time_limit_s: float,
    max_nodes: int | None,
) -> Program:
    """Make the rebuilding program of a model: path-load for lists, else the serial one.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        operators: Their orders, which the path-load program enforces among neighbours.
        model: One of ``models``.
        time_limit_s: Limit of one rebuild.
        max_nodes: Limit of the search tree of one rebuild; reproducible where it ends first.
    """

    def rebuild_list(place: IntArray, free: BoolArray, upper_ms: float) -> Solution:
        order = operators.orders[model - 1]
        return path_load.solve(
            problem, costs, time_limit_s, True, free, place, upper_ms, order, max_nodes
        )

    def rebuild_serial(place: IntArray, free: BoolArray, upper_ms: float) -> Solution:
        tasks = Tasks.of_units(problem.units, costs)
        program, x = build_serial_program(problem, costs, tasks)
        fixed = np.flatnonzero(~free)
        program.require((x[fixed, place[fixed]], 1.0), rows=len(fixed), low=1.0, high=1.0)
        start = x[np.arange(len(place)), place]
        found = minimize(program, time_limit_s, (start, 1.0), max_nodes=max_nodes)
        if found.values is None:
            return Solution(None, found.bound, proven=False)
        best = read_assignment(found.values, x)
        latency_ms = tasks.serial_ms(best) + submodel_ms(problem, costs, best)
        return Solution(best, found.bound, found.proven and reaches(latency_ms, found.bound))

    return rebuild_serial if model == SERIAL else rebuild_list


def rebuild_greedily(
    level: Level,
    operators: Operators,
    model: int,
    place: IntArray,
    free: BoolArray,
    limits_bytes: FloatArray,
    samples: int,
    rng: np.random.Generator,
) -> tuple[IntArray, float]:
    """Rebuild a block by noisy list scheduling, and keep the best of all samples under the model.

    Noise is drawn for runs of the order in which operators are scheduled, of random length and
    scale; and each sample has its own price of memory.

    Args:
        level: Units.
        operators: Their operators.
        model: The model of the latency.
        place: (n_units,) devices.
        free: (n_units,) bool, the block.
        limits_bytes: (n_devices,) bytes that fit.
        samples: Number of times that it is rebuilt.
        rng: Source of the noise.

    Returns:
        (n_units,) devices and the estimate in ms; infinite if no sample is feasible.
    """
    n, d = level.ms.shape
    members = int(free.sum())
    typical_ms = float(level.ms[free].mean())
    per_byte = np.where(np.isfinite(limits_bytes), level.ms[free].sum(), 0.0)
    per_byte /= max(level.held[free].sum(), 1.0)
    best, best_ms = place, np.inf
    order = operators.orders[max(model - 1, 0)]
    for _ in range(samples):
        begins = rng.random(n) < members ** -rng.random()
        noise = rng.gumbel(size=(n, d)) * np.exp(rng.normal() - 1.0) * typical_ms
        noise = noise[np.cumsum(begins) - begins[0]]
        price = per_byte * np.exp(rng.uniform(-4.0, 1.0))
        tried = place_block(
            level, operators, order, model == SERIAL, place, free, limits_bytes, noise, price
        )
        if len(tried):
            ms = estimate_ms(operators, model, tried)
            if ms < best_ms:
                best, best_ms = tried, ms
    return best, best_ms


@njit(cache=True, nogil=True)
def place_block(
    level: Level,
    operators: Operators,
    order: IntArray,
    serial: bool,
    place: IntArray,
    free: BoolArray,
    limits_bytes: FloatArray,
    noise: FloatArray,
    per_byte: FloatArray,
) -> IntArray:
    """Place each free unit where it finishes first; in series, where it adds the least.

    Returns:
        (n_units,) devices; (0,) if there was no room for a unit.
    """
    d = level.ms.shape[1]
    room, result = limits_bytes.copy(), place.copy()
    for u in range(len(place)):
        if free[u]:
            result[u] = -1
        else:
            room[place[u]] -= level.held[u]
    finish, idle_from, ready = np.zeros(len(order)), np.zeros(d), np.empty(d)
    for at in range(len(order)):
        i = order[at]
        u = operators.unit[i]
        ready[:] = 0.0
        for r in range(operators.first[i], operators.first[i + 1]):
            maker, t = operators.maker[r], operators.tensor[r]
            there = result[operators.unit[maker]]
            for device in range(d):
                moving_ms = operators.transfer_ms[t, there, device]
                if serial:
                    ready[device] += moving_ms
                else:
                    ready[device] = max(ready[device], finish[maker] + moving_ms)
        if result[u] < 0:
            best, best_ms = -1, np.inf
            for device in range(d):
                if not level.possible[u, device] or level.held[u] > room[device]:
                    continue
                ms = max(ready[device], idle_from[device]) + level.ms[u, device]
                ms += noise[u, device] + per_byte[device] * level.held[u]
                if ms < best_ms:
                    best, best_ms = device, ms
            if best < 0:
                return np.empty(0, np.int64)
            result[u] = best
            room[best] -= level.held[u]
        here = result[u]
        finish[i] = max(ready[here], idle_from[here]) + operators.ms[i, here]
        if not serial:
            idle_from[here] = finish[i]
    return result
