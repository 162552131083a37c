"""Placements assembled from those of blocks, at two prices of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.costs.semantics import Semantics
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.beams.block_prices import BlockPlan, PricedBlocks, vary
from placement_gym.solvers.beams.expansion import CODED_DEVICES

MAX_INNER = 500
FEW_BLOCKS = 3
WIDTHS = (100,)
NOWHERE = -1


def place_by_blocks(problem: Problem, costs: CostTable, semantics: Semantics) -> IntArray | None:
    """Place units by the blocks of an overlapping schedule.

    The first blocks follow the plan of the highest price at which memory does not suffice, the
    others that of the lowest price at which it does. As many blocks as fit follow the former.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        semantics: What the latency means.

    Returns:
        (n_units,) devices; None if there are few blocks, a block is too large, or nothing fits.
    """
    if len(problem.devices) > CODED_DEVICES:
        return None
    priced = PricedBlocks(problem, costs, semantics, np.inf, WIDTHS)
    blocks = priced.blocks.blocks
    if len(blocks) < FEW_BLOCKS or priced.blocks.largest > MAX_INNER:
        return None
    plans = sorted(vary(priced), key=lambda plan: plan.tangent.scale)
    best = None
    for cheap, dear in zip(plans, plans[1:] + plans[-1:], strict=True):
        low, high = -1, len(blocks) + 1
        while high - low > 1:
            middle = (low + high) // 2
            placed = follow(priced, cheap, dear, middle)
            if problem.infeasibility(placed):
                high = middle
            else:
                low, best = middle, placed
        if best is not None:
            return best
    return best


def follow(priced: PricedBlocks, cheap: BlockPlan, dear: BlockPlan, n_cheap: int) -> IntArray:
    """(n_units,) devices if the first blocks follow one plan and the others another.

    Equal devices are exchanged so that whatever needs the most memory goes where the most is left.
    """
    problem, kinds = priced.problem, priced.kinds
    kind_of = {device: kind for kind in kinds for device in kind}
    placed = np.full(problem.n_units + 2, NOWHERE)
    room = problem.limits_bytes.copy()
    here = kinds[0][0]
    for number, block in enumerate(priced.blocks.blocks):
        choices = (cheap if number < n_cheap else dear).choices[number]
        chosen = choices[kind_of[here][0]].devices
        first = np.unique(block.tasks.unit, return_index=True)[1]
        held = np.bincount(chosen[first], block.unit_bytes, len(room))
        device = exchange(kinds, here, held, room)[chosen]
        unit = block.unit[block.tasks.unit]
        new = np.flatnonzero(placed[unit] == NOWHERE)
        placed[unit[new]] = device[new]
        room -= np.bincount(device[first], block.unit_bytes, len(room))
        here = int(placed[unit[-1]])
    return place_loose(problem, placed[: problem.n_units])


def exchange(kinds: list[list[int]], here: int, held: NDArray[Any], room: FloatArray) -> IntArray:
    """(n_devices,) the device that replaces each one; ``here`` replaces the entry's."""
    taken = np.empty(len(held), dtype=np.int64)
    for kind in kinds:
        parts, devices = list(kind), list(kind)
        if here in kind:
            taken[parts.pop(0)] = here
            devices.remove(here)
        parts.sort(key=lambda part: -held[part])
        devices.sort(key=lambda device: -room[device])
        taken[parts] = devices
    return taken


def place_loose(problem: Problem, placed: IntArray) -> IntArray:
    """Place units that are in no block with a neighbour, the others on the reference device."""
    tensors = problem.units.quotient.tensors
    tensor, reader = tensors.readings()
    maker = tensors.source[tensor]
    for own, other in ((maker, reader), (reader, maker)):
        lonely = (placed[own] == NOWHERE) & (placed[other] != NOWHERE)
        placed[own[lonely]] = placed[other[lonely]]
    return np.where(placed == NOWHERE, problem.reference_device, placed)
