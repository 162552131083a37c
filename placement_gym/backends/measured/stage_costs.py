"""Costs of a pipeline's stages beyond their operators: the profile for throughput.

A stage is a compiled model of its own. Each of its inferences costs a call, a copy of the inputs
and caches that another stage has filled; a model with state pays that for every token. Time that no
counter shows is distributed unevenly over the model, so that both halves are measured.
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

MAX_STAGE_SHARE = 0.5
"""Largest share of a single device's time that may be attributed to its one stage: ours. More is
noise, and would leave operators for free."""


def charge_stages(
    costs: CostTable, stage_ms: FloatArray, weights: FloatArray | None = None, n_alone: int = 1
) -> CostTable:
    """Add the costs of stages to a profile; a device alone takes as long as before.

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
    charged_ms = np.minimum(stage_ms * n_alone, MAX_STAGE_SHARE * alone_ms)
    scale = np.divide(
        alone_ms - charged_ms, operators_ms, out=np.ones_like(alone_ms), where=operators_ms > 0.0
    )
    return replace(costs, operator_ms=operator_ms * scale, submodel_ms=charged_ms / n_alone)


def measure_stage_costs(
    backend: MeasuringBackend, costs: CostTable
) -> tuple[FloatArray, FloatArray]:
    """Measure the cost of stages, and in which half of the model a device spends its time.

    The model is cut in two, and each half runs on the device while the other runs on its partner.
    The device's time for both halves less its time for the whole is the cost of one stage (two
    stages less one), or of several where the cut goes through several models of a union. Each time
    is the minimum of its repeats, since other programs only slow them down.
    A device that cannot hold the model gets the largest cost of the others. The weight of a half's
    operators is its measured time over its time by the profile.

    Returns:
        (n_devices,) ms that each stage of a request costs on top of its operators; and
        (n_operators, n_devices) weights, see ``charge_stages``.
    """
    problem = backend.problem
    full_devices = [
        device for device in range(len(problem.devices)) if holds_model(problem, device)
    ]
    first, *partners = [device for device in full_devices if problem.runs_all[device]]
    simulator = Simulator(problem.units, costs, parse_schedule("serial", "throughput"))
    stage_ms = np.full(len(problem.devices), np.nan)
    weights = np.ones_like(costs.operator_ms)

    def count(assignment: IntArray) -> IntArray:
        return simulator.stages(assignment.astype(np.uint8))

    for partner in partners:
        halves = cut_in_half(problem, costs, first, partner)
        pair = [problem.single(first), problem.single(partner)]
        fastest_ms = backend.measure_stages([*pair, *halves]).min(axis=0)
        single_ms, half_ms = np.split(fastest_ms, 2)
        extra_stages = sum(map(count, halves)) - count(pair[0]) - count(pair[1])
        extra_ms = (half_ms.sum(axis=0) - single_ms.sum(axis=0)) / np.maximum(extra_stages, 1)
        for device in (first, partner):
            stage_ms[device] = np.nanmax([0.0, extra_ms[device], stage_ms[device]])
            for half, ms in zip(halves, half_ms[:, device], strict=True):
                on_device = (half == device)[problem.units.of_operator]
                expected_ms = costs.operator_ms[on_device, device].sum()
                if expected_ms > 0.0:
                    weights[on_device, device] = ms / expected_ms
    measured_ms = stage_ms[np.isfinite(stage_ms)]
    return np.where(np.isfinite(stage_ms), stage_ms, measured_ms.max(initial=0.0)), weights


def cut_in_half(problem: Problem, costs: CostTable, first: int, second: int) -> list[IntArray]:
    """Both placements of the model's halves, by work, on two devices; units are in order."""
    work_ms = np.cumsum(costs.unit_ms(problem.units)[:, [first, second]].mean(axis=1))
    in_second_half = work_ms > work_ms[-1] / 2
    return [np.where(in_second_half, second, first), np.where(in_second_half, first, second)]
