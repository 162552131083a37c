"""Rows that make tasks on one device run in the fixed order of a list schedule."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import BoolArray, IntArray
from placement_gym.solvers.programs.path_program import PathProgram

NEAR = 8


def add_order_rows(
    built: PathProgram, order: IntArray, free: BoolArray | None, start: IntArray | None
) -> None:
    """Make tasks on one device run in order, as far as a linear program can.

    Between two consecutive fixed tasks of a device, there must be time for all free tasks between
    them that are placed there. A free task that is placed there runs after the fixed task before it
    and before the next one. Two free tasks at most ``NEAR`` positions apart run in order if both
    are placed there.

    Args:
        built: The program; rows about free tasks need its ``late`` to be finite.
        order: (n_tasks,) tasks in order.
        free: (n_units,) bool, units that may move; None for all.
        start: (n_units,) devices of the other units.
    """
    unit = built.tasks.unit
    moves = np.ones(len(unit), dtype=bool) if free is None else free[unit]
    loose = order[moves[order]]
    for device in range(built.x.shape[1]):
        for gap in range(1, NEAR + 1):
            add_pairs(built, loose[:-gap], loose[gap:], device, moves)
        if start is None:
            continue
        stays = ~moves & (start[unit] == device)
        fixed = order[stays[order]]
        following = np.cumsum(stays[order])[moves[order]]
        after, before = following < len(fixed), following > 0
        add_pairs(built, fixed[following[before] - 1], loose[before], device, moves)
        add_pairs(built, loose[after], fixed[following[after]], device, moves)
        add_between(built, fixed, loose, following, device)


def add_pairs(
    built: PathProgram, first: IntArray, second: IntArray, device: int, moves: BoolArray
) -> None:
    """Make the first task of each pair run before the second if both are on the device."""
    ms = built.tasks.ms[:, device]
    slack = built.late[first] + ms[second] - built.early[second]
    kept = np.isfinite(slack) & (slack > 0.0)
    first, second, slack = first[kept], second[kept], slack[kept]
    on = np.stack([built.on[first, device], built.on[second, device]], axis=1)
    switches = np.stack([moves[first], moves[second]], axis=1)
    built.program.require(
        (built.finish[first], 1.0),
        (built.finish[second], -1.0),
        (on, slack[:, None] * switches),
        rows=len(first),
        high=slack * switches.sum(axis=1) - ms[second],
    )


def add_between(
    built: PathProgram, fixed: IntArray, loose: IntArray, following: IntArray, device: int
) -> None:
    """Reserve time between fixed tasks for the free tasks that are placed on the device.

    Args:
        built: The program.
        fixed: (n_fixed,) tasks that stay on the device, in order.
        loose: (n_free,) tasks that may move, in order.
        following: (n_free,) index in ``fixed`` of the next fixed task after each free one.
        device: The device.
    """
    ms, finish = built.tasks.ms[:, device], built.finish
    for k in range(1, len(fixed)):
        inside = loose[following == k]
        built.program.require(
            (finish[[fixed[k - 1]]], 1.0),
            (finish[[fixed[k]]], -1.0),
            (built.on[inside, device], ms[inside]),
            rows=1,
            high=-ms[fixed[k]],
        )
