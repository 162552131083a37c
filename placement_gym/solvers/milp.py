"""The best serial placement under limits: a mixed-integer linear program for HiGHS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, vstack

from placement_gym.costs.table import CostTable, FloatArray
from placement_gym.graph.operators import IntArray
from placement_gym.problem import Problem
from placement_gym.solvers.tasks import Tasks

GAP = 1e-6


@dataclass(frozen=True)
class Solution:
    """What a solver found, and what it proved.

    Attributes:
        assignment: (n_units,) the best placement found; None if there is none.
        bound_ms: No placement has a lower additive latency.
        proven: Whether ``assignment`` reaches ``bound_ms``, to the solver's gap.
    """

    assignment: IntArray | None
    bound_ms: float
    proven: bool


def serial_program(problem: Problem, costs: CostTable, time_limit_s: float = 60.0) -> Solution:
    """Minimise unit times and transfers, a tensor once a destination, under support and memory.

    Costs of submodels are left out, so that with them ``bound_ms`` is still a bound. A variable
    x[u, d] places a unit; z[t, a, b] moves tensor t from device a to b. A tensor with a reader on
    b whose maker is elsewhere has to come from somewhere: sum_a z[t, a, b] >= x[reader, b] -
    x[maker, b], and z[t, a, b] <= x[maker, a].

    Args:
        problem: Units, devices, support and memory limits.
        costs: Of the units' operators.
        time_limit_s: Then the best placement so far and the bound are returned.
    """
    tasks = Tasks.of_units(problem.units, costs)
    n, d = tasks.ms.shape
    pairs = [(a, b) for a in range(d) for b in range(d) if a != b]
    t = len(tasks.tensors.source)
    moves = np.array([tasks.transfer_ms[:, a, b] for a, b in pairs]).reshape(len(pairs), t)
    objective = np.concatenate([tasks.ms.ravel(), moves.ravel()])
    constraints = [
        one_device(n, d, len(objective)),
        *memory(problem, len(objective)),
        *(LinearConstraint(m, -np.inf, 0.0) for m in transfers(tasks, pairs, n, d)),
    ]
    highest = np.ones(len(objective))
    highest[: n * d] = problem.supported.ravel()
    found = milp(
        objective,
        integrality=np.concatenate([np.ones(n * d), np.zeros(moves.size)]),
        bounds=Bounds(0.0, highest),
        constraints=constraints,
        options={"time_limit": time_limit_s, "mip_rel_gap": GAP},
    )
    bound_ms = float(found.mip_dual_bound) if found.mip_dual_bound is not None else 0.0
    if found.x is None:
        return Solution(None, np.inf if found.status == 2 else bound_ms, proven=False)
    chosen = found.x[: n * d].reshape(n, d).argmax(axis=1).astype(np.int64)
    return Solution(chosen, bound_ms, proven=found.status == 0)


def one_device(n: int, d: int, n_columns: int) -> LinearConstraint:
    """Every unit has exactly one device."""
    rows, columns = np.repeat(np.arange(n), d), np.arange(n * d)
    return LinearConstraint(matrix(rows, columns, np.ones(n * d), n, n_columns), 1.0, 1.0)


def memory(problem: Problem, n_columns: int) -> list[LinearConstraint]:
    """No device holds more than its limit, where there are limits."""
    n, d = problem.supported.shape
    limited = np.flatnonzero(np.isfinite(problem.limits_bytes))
    if not len(limited):
        return []
    scale = max(problem.unit_bytes.max(), 1.0)
    rows = np.repeat(np.arange(len(limited)), n)
    columns = (np.arange(n) * d + limited[:, None]).ravel()
    weights = np.tile(problem.unit_bytes / scale, len(limited))
    held = matrix(rows, columns, weights, len(limited), n_columns)
    return [LinearConstraint(held, -np.inf, problem.limits_bytes[limited] / scale)]


def transfers(tasks: Tasks, pairs: list[tuple[int, int]], n: int, d: int) -> list[csr_array]:
    """Matrices of what must not be positive: see ``serial_program``."""
    tensor, reader = tasks.tensors.readings()
    maker, t = tasks.tensors.source, len(tasks.tensors.source)
    n_columns, first = n * d + len(pairs) * t, n * d
    result = []
    for b in range(d):
        into = [k for k, (_, there) in enumerate(pairs) if there == b]
        rows = np.arange(len(tensor))
        parts = [(rows, reader * d + b, 1.0), (rows, maker[tensor] * d + b, -1.0)]
        parts += [(rows, first + k * t + tensor, -1.0) for k in into]
        result.append(stacked(parts, len(tensor), n_columns))
    for k, (a, _) in enumerate(pairs):
        rows = np.arange(t)
        parts = [(rows, first + k * t + rows, 1.0), (rows, maker * d + a, -1.0)]
        result.append(stacked(parts, t, n_columns))
    return [vstack(result).tocsr()] if t else []


def stacked(
    parts: list[tuple[IntArray, IntArray, float]], n_rows: int, n_columns: int
) -> csr_array:
    rows, columns = (np.concatenate([part[i] for part in parts]) for i in range(2))
    values = np.concatenate([np.full(len(part[0]), part[2]) for part in parts])
    return matrix(rows, columns, values, n_rows, n_columns)


def matrix(
    rows: IntArray, columns: IntArray, values: FloatArray, n_rows: int, n_columns: int
) -> csr_array:
    return coo_array((values, (rows, columns)), (n_rows, n_columns)).tocsr()
