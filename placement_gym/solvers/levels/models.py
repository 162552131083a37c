"""Models of a latency that solvers compute themselves: serial, and lists in two orders."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.tasks import Tasks

SERIAL, BY_NUMBER, BY_RANK = 0, 1, 2
NOTHING_MS = 1e-200
"""Replaces estimates of zero, whose logarithm is infinite."""


class Operators(NamedTuple):
    """Operators, what they read, and the orders in which devices may run them.

    Attributes:
        unit: (n,) unit of each.
        ms: (n, n_devices) times.
        first: (n + 1,) where each operator's readings begin.
        tensor: (n_readings,) tensor of each.
        maker: (n_readings,) operator that makes it.
        source: (n_tensors,) operator that makes each tensor.
        transfer_ms: (n_tensors, n_devices, n_devices).
        orders: (2, n) operators in topological order: by number, and by decreasing upward rank.
    """

    unit: IntArray
    ms: FloatArray
    first: IntArray
    tensor: IntArray
    maker: IntArray
    source: IntArray
    transfer_ms: FloatArray
    orders: IntArray

    @classmethod
    def of(cls, problem: Problem, costs: CostTable) -> Operators:
        tasks = Tasks.of_operators(problem.units, costs)
        tensor, reader = tasks.tensors.readings()
        by_reader = np.argsort(reader, kind="stable")
        tensor, n = tensor[by_reader], len(tasks)
        return cls(
            unit=tasks.unit,
            ms=np.ascontiguousarray(tasks.ms),
            first=np.searchsorted(reader[by_reader], np.arange(n + 1)),
            tensor=tensor,
            maker=tasks.tensors.source[tensor],
            source=tasks.tensors.source,
            transfer_ms=np.ascontiguousarray(tasks.transfer_ms),
            orders=np.stack([np.arange(n), tasks.rank_order()]),
        )


@njit(cache=True, nogil=True)
def estimate_ms(operators: Operators, model: int, place: IntArray) -> float:
    """The latency of (n_units,) devices under one of the models; transfers never wait."""
    if model == SERIAL:
        return estimate_serial_ms(operators, place)
    unit, ms, first = operators.unit, operators.ms, operators.first
    tensor, maker, transfer_ms = operators.tensor, operators.maker, operators.transfer_ms
    finish, free = np.empty(len(unit)), np.zeros(ms.shape[1])
    for i in operators.orders[model - 1]:
        here = place[unit[i]]
        ready = free[here]
        for r in range(first[i], first[i + 1]):
            source = maker[r]
            ready = max(ready, finish[source] + transfer_ms[tensor[r], place[unit[source]], here])
        finish[i] = ready + ms[i, here]
        free[here] = finish[i]
    return float(free.max())


@njit(cache=True, nogil=True)
def estimate_serial_ms(operators: Operators, place: IntArray) -> float:
    """The sum of all times and transfers, each tensor once per destination."""
    unit, tensor, first = operators.unit, operators.tensor, operators.first
    n_tensors, d = operators.transfer_ms.shape[:2]
    sent = np.zeros((n_tensors, d), np.bool_)
    total = 0.0
    for i in range(len(unit)):
        here = place[unit[i]]
        total += operators.ms[i, here]
        for r in range(first[i], first[i + 1]):
            t = tensor[r]
            if not sent[t, here]:
                sent[t, here] = True
                total += operators.transfer_ms[t, place[unit[operators.source[t]]], here]
    return total


def choose_model(
    operators: Operators, places: IntArray, latency_ms: FloatArray
) -> tuple[int, float]:
    """Choose the model that comes closest to known latencies, up to a common factor.

    Args:
        operators: What the models compute with.
        places: (k, n_units) placements.
        latency_ms: (k,) their latencies; infinite ones do not count.

    Returns:
        The model, and the mean error of its estimates, relative to them.
    """
    known = np.isfinite(latency_ms)
    errors = []
    for model in (BY_RANK, BY_NUMBER, SERIAL):
        estimates = np.array([estimate_ms(operators, model, place) for place in places[known]])
        ratio = np.log(latency_ms[known] / np.maximum(estimates, NOTHING_MS))
        error = float(np.abs(ratio - np.median(ratio)).mean()) if known.any() else 0.0
        errors.append((model, round(error, 9)))
    return min(errors, key=lambda item: item[1])
