"""Filling devices in order, as tools for inference split a model without a model of its costs.

``shares="full"`` is accelerate's ``device_map="sequential"`` and OpenVINO's ``PIPELINE_PARALLEL``
(HETERO counts 1.2 times the weights, to leave room for tensors). ``"equal"`` is accelerate's
``"auto"``, which is ``"balanced"``. ``"limits"`` is llama.cpp's ``--split-mode layer``, which goes
by free memory and leaves the first layers to the CPU, here the last.
"""

from __future__ import annotations

import numpy as np

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.errors import unknown_name
from placement_gym.problem import Problem

SHARES = ("full", "equal", "limits")


def fill_in_order(problem: Problem, costs: CostTable, shares: str = "full") -> IntArray:
    """Give each device in turn the next run of units, by weights alone.

    Accelerators come before hosts, faster devices before slower ones. The last device takes what
    is left, even beyond its limit. A unit that its device does not run goes to the reference
    device.

    Args:
        problem: Units, devices, support and limits.
        costs: Costs of the units' operators, which only sort the devices.
        shares: How much an accelerator takes of the weights. ``"full"``: what it can hold.
            ``"equal"``: an equal share. ``"limits"``: a share in proportion to its limit, equal
            ones if there is no limit. Never more than it can hold; the last accelerator takes
            all that it can hold.

    Returns:
        (n_units,) devices.

    Raises:
        UserError: ``shares`` is unknown.
    """
    if shares not in SHARES:
        raise unknown_name("shares", shares, SHARES)
    order = np.lexsort([costs.operator_ms.sum(axis=0), costs.host])
    room = share_out(problem, costs, order, shares)
    device = np.full(problem.n_units, order[-1])
    begin = 0
    for here in order[:-1]:
        held = problem.unit_bytes[begin:] * problem.supported[begin:, here]
        end = begin + int(np.searchsorted(np.cumsum(held), room[here], side="right"))
        device[begin:end] = here
        begin = end
    return problem.where_supported(device)


def share_out(problem: Problem, costs: CostTable, order: IntArray, shares: str) -> FloatArray:
    """(n_devices,) bytes that each device takes at most."""
    limits = problem.limits_bytes
    sharing = order if costs.host.all() else order[~costs.host[order]]
    if shares == "full":
        return limits
    by_limit = shares == "limits" and np.isfinite(limits[sharing]).all()
    weights = limits[sharing] if by_limit else np.ones(len(sharing))
    room = limits.copy()
    total = problem.unit_bytes.sum()
    room[sharing[:-1]] = np.minimum(room[sharing], total * weights / max(weights.sum(), 1.0))[:-1]
    return room
