"""Filling devices in order, as inference tools split models without knowing costs.

Shares are those of accelerate's ``device_map="sequential"`` (``"full"``) and ``"auto"``
(``"equal"``), and of llama.cpp's ``--split-mode layer`` (``"limits"``; the CPU gets the last layers
here, not the first) and ``--fit`` (``"fit"``, its pull request 16653).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from placement_gym.base import FloatArray, IntArray, check_choice
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable

SHARES = ("full", "equal", "limits", "fit")
EXPERT = re.compile(r".*?(?<!shared_)expert[^/.]*([/.]\d+)?", re.IGNORECASE)
"""The part of a name that identifies its expert; shared experts serve all tokens and do not
count."""
MARGIN = 1.2
"""Memory that OpenVINO assumes a model to need, as a multiple of its weights."""


def fill_in_order(problem: Problem, costs: CostTable, shares: str = "full") -> IntArray:
    """Give each device in turn the next run of units, by weights alone; returns (n_units,) devices.

    Accelerators come before hosts, faster devices before slower ones: ``costs`` only sort devices.
    The last device takes the rest, even beyond its limit. Unsupported units move to the reference
    device.

    An accelerator takes as much of the weights as it can hold (``shares="full"``), or at most an
    equal share (``"equal"``) or one in proportion to its limit (``"limits"``; equal without
    limits). The last accelerator takes all that it can hold. ``"fit"`` first fills devices without
    experts, which are recognised by name; whole experts then take the remaining memory, and the
    last device the others. Raises a ``UserError`` if ``shares`` is unknown.
    """
    check_choice("shares", shares, SHARES)
    order = np.lexsort([costs.operator_ms.sum(axis=0), costs.host])
    share, unit_bytes = compute_shares(problem, costs, order, shares), problem.unit_bytes.copy()
    experts = find_experts(problem.units.names) if shares == "fit" else []
    for expert in experts:
        unit_bytes[expert] = 0.0
    left = problem.limits_bytes.copy()
    device = np.full(problem.n_units, order[-1])
    begin = 0
    for here in order[:-1]:
        total_bytes = np.cumsum(unit_bytes[begin:] * problem.supported[begin:, here])
        count = int(np.searchsorted(total_bytes, min(share[here], left[here]), side="right"))
        device[begin : begin + count] = here
        left[problem.memory.shared[here]] -= total_bytes[count - 1] if count else 0.0
        begin += count
    # Experts go to the first device with room, beginning with that of the run they are in.
    for expert in experts:
        expert_bytes = problem.unit_bytes[expert].sum()
        for here in order[order.tolist().index(device[expert[0]]) :]:
            fits = expert_bytes <= left[here] and problem.supported[expert, here].all()
            if fits or here == order[-1]:
                device[expert] = here
                left[problem.memory.shared[here]] -= expert_bytes
                break
    return problem.move_unsupported(device)


def find_experts(names: Sequence[str]) -> list[IntArray]:
    """The units of each expert, by their names."""
    experts: dict[str, list[int]] = {}
    for unit, name in enumerate(names):
        if match := EXPERT.match(name):
            experts.setdefault(match.group(), []).append(unit)
    return [np.array(units, dtype=np.int64) for units in experts.values()]


def compute_shares(problem: Problem, costs: CostTable, order: IntArray, shares: str) -> FloatArray:
    """(n_devices,) bytes that each device takes at most."""
    limits = problem.limits_bytes
    sharing = order if costs.host.all() else order[~costs.host[order]]
    if shares in ("full", "fit"):
        return limits
    by_limit = shares == "limits" and np.isfinite(limits[sharing]).all()
    weights = limits[sharing] if by_limit else np.ones(len(sharing))
    room = limits.copy()
    total = problem.unit_bytes.sum()
    room[sharing[:-1]] = np.minimum(room[sharing], total * weights / max(weights.sum(), 1.0))[:-1]
    return room


def pipeline_parallel(problem: Problem, weights: IntArray) -> IntArray:
    """Split as HETERO's ``PIPELINE_PARALLEL`` does: by weights alone, times ``MARGIN``.

    Each device in order takes a run of units, the last one the rest. A device that can hold the
    rest takes all of it. Otherwise it fills up to its limit, or, if the devices together are too
    small, takes its share of their memory. Devices of a pool each count all of it. ``weights`` are
    (n_units,) bytes without state; returns (n_units,) devices.
    """
    limits, last = problem.limits_bytes, len(problem.devices) - 1
    device = np.full(problem.n_units, last)
    begin = 0
    for here in range(last):
        rest, left = float(weights[begin:].sum()), float(limits[here:].sum())
        enough = MARGIN * rest
        if limits[here] >= enough or (limits[here] > rest and left >= enough):
            room = rest
        elif left >= enough:
            room = float(limits[here]) / MARGIN
        else:
            room = rest * float(limits[here]) / left
        supported_bytes = weights[begin:] * problem.supported[begin:, here]
        end = begin + int(np.searchsorted(np.cumsum(supported_bytes), room, side="right"))
        device[begin:end] = here
        begin = end
    return problem.move_unsupported(device)


def greedy_fill(problem: Problem, costs: CostTable, order: IntArray | None = None) -> IntArray:
    """Fill one accelerator after another, for schedule ``"calls"``; returns (n_units,) devices.

    The greedy algorithm of Tarnawski et al. (2020, section 6). Units are placed in (n_units,)
    ``order``, by default topological. One that the current accelerator does not support or have
    room for moves to a host, else to any accelerator that can hold it, else to the device with the
    most room.
    """
    room, shared = problem.limits_bytes.copy(), problem.memory.shared
    hosts, accelerators = np.flatnonzero(costs.host), np.flatnonzero(~costs.host)
    device = np.zeros(problem.n_units, dtype=np.int64)
    at = 0
    for unit in range(problem.n_units) if order is None else order:
        unit_bytes = problem.unit_bytes[unit]
        while at < len(accelerators) - 1 and unit_bytes > room[accelerators[at]]:
            at += 1
        choices = np.concatenate([accelerators[at : at + 1], hosts, accelerators])
        fits = problem.supported[unit, choices] & (unit_bytes <= room[choices])
        if fits.any():
            device[unit] = choices[fits.argmax()]
        else:
            device[unit] = np.where(problem.supported[unit], room, -np.inf).argmax()
        room[shared[device[unit]]] -= unit_bytes
    return device
