"""What the graph encoder sees of units and devices: numbers without scale."""

from __future__ import annotations

import numpy as np

from agents.sequential.board import ADDED, LOAD, Board
from placement_gym.arrays import Float32Array, FloatArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.tasks import Tasks

FEATURES = (
    "time above that of the fastest device",
    "time",
    "mean transfer of outputs",
    "mean transfer of inputs",
    "memory over the limit",
    "memory",
    "memory of units that gain more per byte here, over the limit",
    "the same, over all limits",
    "share of units that gain less per byte here",
    "longest path after the unit",
    "position in rank order",
    "number of readers",
    "number of inputs",
    "whether the device supports the unit",
    "whether the device has a limit",
    "limit over all memory",
    "all limits over all memory",
    "time of all units above that at their fastest devices",
    "mean transfer of all tensors to the device",
    "one over the number of devices",
    "transfers over work",
    "work over the longest path",
    "whether cost is added up",
    "whether the largest load counts",
    "whether the plan of least cost puts the unit here",
    "whether the plan that shares out the load does",
    "whether the plan of the most even load does",
    "what the plan of least cost costs above the cheapest plan",
    "what the plan that shares out the load does",
    "what the plan of the most even load does",
)
"""Columns of the features of a unit on a device; times are relative to the mean of all."""
STEEP = 4.0
"""A plan that costs a quarter more is half way from the cheapest to one of any cost."""


def describe(problem: Problem, costs: CostTable, board: Board) -> Float32Array:
    """(n_units, n_devices, n_features) float32."""
    tasks = Tasks.of_units(problem.units, costs)
    ms, scale = tasks.ms, board.decoder.scale_ms
    n_units, n_devices = ms.shape
    held, limits = problem.unit_bytes, problem.limits_bytes
    total = held.sum() or 1.0
    limited = np.isfinite(limits)
    outward, inward, n_out, n_in = sum_transfers(tasks, n_devices)
    ahead, below = rank_gains(problem, ms)
    first = np.unique(board.decoder.unit, return_index=True)[1]
    tail = board.tail_ms[first]
    longest = (board.tail_ms + board.decoder.ms.mean(axis=1)).max()
    fastest = ms.min(axis=1, keepdims=True)
    plans, plan_ms = board.plans, board.plan_ms
    to_device = tasks.transfer_ms.sum(axis=(0, 1)) / max(len(tasks.tensor) * n_devices, 1)
    columns = (
        squash((ms - fastest) / scale),
        squash(ms / scale),
        squash(outward / scale),
        squash(inward / scale),
        np.minimum(board.decoder.fill, 1.0),
        squash(held / (total / n_units))[:, None],
        squash(ahead / np.maximum(limits, 1.0)),
        squash(ahead / max(limits[limited].sum(), 1.0)) * limited,
        below,
        (tail / (longest or 1.0))[:, None],
        (first / len(board.decoder.unit))[:, None],
        squash(n_out / 4.0)[:, None],
        squash(n_in / 4.0)[:, None],
        problem.supported,
        limited,
        np.minimum(limits / total, 1.0),
        min(limits.sum() / total, 1.0),
        squash(ms.sum(axis=0) / (fastest.sum() or 1.0) - 1.0),
        squash(to_device / scale),
        1.0 / n_devices,
        squash(board.mean_ms.sum() / (ms.mean(axis=1).sum() or 1.0)),
        squash(ms.mean(axis=1).sum() / (longest or 1.0) / 4.0),
        float(board.goal == ADDED),
        float(board.goal == LOAD),
        *(plan[:, None] == np.arange(n_devices) for plan in plans),
        *squash(STEEP * (plan_ms / (plan_ms.min() or 1.0) - 1.0)),
    )
    full = [np.broadcast_to(column, (n_units, n_devices)) for column in columns]
    return np.stack(full, axis=-1).astype(np.float32)


def squash(value: FloatArray) -> FloatArray:
    """Map numbers from 0 to infinity to [0, 1)."""
    result: FloatArray = 1.0 - 1.0 / (1.0 + value)
    return result


def list_edges(problem: Problem) -> IntArray:
    """(2, n_edges) units that make and units that read a tensor."""
    tensors = problem.units.quotient.tensors
    tensor, reader = tensors.readings()
    edges: IntArray = np.stack([tensors.source[tensor], reader])
    return edges


def sum_transfers(
    tasks: Tasks, n_devices: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Sums over the tensors of each unit.

    Returns:
        (n_units, n_devices) mean time to send its outputs from each device elsewhere, the same to
        bring its inputs there, and (n_units,) numbers of readers and of inputs.
    """
    n, others = len(tasks), max(n_devices - 1, 1)
    tensor, reader = tasks.tensors.readings()
    outward, inward = np.zeros((n, n_devices)), np.zeros((n, n_devices))
    np.add.at(outward, tasks.tensors.source, tasks.transfer_ms.sum(axis=2) / others)
    np.add.at(inward, reader, (tasks.transfer_ms.sum(axis=1) / others)[tensor])
    n_out = np.bincount(tasks.tensors.source[tensor], minlength=n).astype(np.float64)
    return outward, inward, n_out, np.bincount(reader, minlength=n).astype(np.float64)


def rank_gains(problem: Problem, ms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rank units on each device by the time that it saves per byte, as a knapsack is filled.

    Time is saved against the fastest device without a limit, or the slowest if all have one.

    Returns:
        (n_units, n_devices) bytes of the units that save more, and the share of those that save
        less.
    """
    held = problem.unit_bytes
    unlimited = np.isinf(problem.limits_bytes)
    ruled_out = ~(problem.supported & unlimited)
    otherwise = np.where(ruled_out, np.inf, ms).min(axis=1)
    otherwise = np.where(np.isfinite(otherwise), otherwise, ms.max(axis=1))
    saved = np.maximum(otherwise[:, None] - ms, 0.0)
    density = saved / np.maximum(held, 1.0)[:, None]
    order = np.argsort(-density, axis=0, kind="stable")
    ordered = held[order]
    before = np.cumsum(ordered, axis=0) - ordered
    ahead, below = np.empty_like(ms), np.empty_like(ms)
    np.put_along_axis(ahead, order, before, axis=0)
    share = 1.0 - np.arange(len(ms))[:, None] / len(ms)
    np.put_along_axis(below, order, np.broadcast_to(share, ms.shape), axis=0)
    return ahead, below
