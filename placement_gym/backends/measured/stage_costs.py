"""Costs of a pipeline's stages beyond their operators: the profile that throughput needs.

A stage is a compiled model of its own. Each of its inferences is called, gets its inputs and begins
with caches that another stage has used; a model with state pays that for every token. What no
operator is charged with by its counters is in one half of the model more than in the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.backends.measured.profile import holds_model
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.problem.costs.semantics import parse_schedule
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.schedules.simulator import Simulator

if TYPE_CHECKING:
    from placement_gym.backends.measured.measuring import MeasuringBackend

MAX_SHARE = 0.5
"""Of the time of a device alone, the most that is taken for the cost of its one stage."""


def charge_stages(
    costs: CostTable, stage_ms: FloatArray, weights: FloatArray | None = None, n_alone: int = 1
) -> CostTable:
    """The costs of pipelines: a device alone takes as long as before, its stages included.

    Args:
        costs: A profile.
        stage_ms: (n_devices,) cost of each stage on a device, in the time of a request.
        weights: (n_operators, n_devices) how much more than others each operator takes in a stage
            than by the profile; None for all alike.
        n_alone: Stages of a device alone in a request: one, or inferences in a union's round.
    """
    alone_ms = costs.operator_ms.sum(axis=0) + costs.submodel_ms
    operator_ms = costs.operator_ms if weights is None else costs.operator_ms * weights
    operators_ms = operator_ms.sum(axis=0)
    charged_ms = np.minimum(stage_ms * n_alone, MAX_SHARE * alone_ms)
    scale = np.divide(
        alone_ms - charged_ms, operators_ms, out=np.ones_like(alone_ms), where=operators_ms > 0.0
    )
    return replace(costs, operator_ms=operator_ms * scale, submodel_ms=charged_ms / n_alone)


def measure_stage_costs(
    backend: MeasuringBackend, costs: CostTable
) -> tuple[FloatArray, FloatArray]:
    """Measure what stages cost, and where in the model a device spends its time.

    The model is cut in two, either half on the device and the other one on its partner. What the
    device takes for both halves, less what it takes for the whole, is the cost of one stage: two
    stages less one; where it cuts several models of a union, as many. Each is the fastest of its
    repeats, as others on the machine only slow them.
    A device that cannot hold the model gets the largest cost of the others. The operators of each
    half weigh what the half takes over what the profile says.

    Returns:
        (n_devices,) ms that each stage of a request costs on top of its operators; and
        (n_operators, n_devices) weights, see ``charge_stages``.
    """
    problem = backend.problem
    whole = [device for device in range(len(problem.devices)) if holds_model(problem, device)]
    first, *others = [device for device in whole if problem.runs_all[device]]
    simulator = Simulator(problem.units, costs, parse_schedule("serial", "throughput"))
    found = np.full(len(problem.devices), np.nan)
    weights = np.ones_like(costs.operator_ms)

    def count(assignment: IntArray) -> IntArray:
        return simulator.stages(assignment.astype(np.uint8))

    for other in others:
        halves = cut_in_half(problem, costs, first, other)
        pair = [problem.single(first), problem.single(other)]
        fastest_ms = backend.measure_stages([*pair, *halves]).min(axis=0)
        alone, swapped = np.split(fastest_ms, 2)
        added = sum(map(count, halves)) - count(pair[0]) - count(pair[1])
        extra = (swapped.sum(axis=0) - alone.sum(axis=0)) / np.maximum(added, 1)
        for device in (first, other):
            found[device] = np.nanmax([0.0, extra[device], found[device]])
            for half, ms in zip(halves, swapped[:, device], strict=True):
                mine = (half == device)[problem.units.of_operator]
                expected_ms = costs.operator_ms[mine, device].sum()
                if expected_ms > 0.0:
                    weights[mine, device] = ms / expected_ms
    known = found[np.isfinite(found)]
    return np.where(np.isfinite(found), found, known.max(initial=0.0)), weights


def cut_in_half(problem: Problem, costs: CostTable, first: int, other: int) -> list[IntArray]:
    """Both placements of the model's halves, by work, on two devices; units are in order."""
    work_ms = np.cumsum(costs.unit_ms(problem.units)[:, [first, other]].mean(axis=1))
    later = work_ms > work_ms[-1] / 2
    return [np.where(later, other, first), np.where(later, first, other)]
