"""Proposing plans for several models on common devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from placement_gym.backends.simulated import (
    SimulatedBackend,
    SimulatedProblem,
    build_simulated_problem,
)
from placement_gym.base import FloatArray, IntArray, UserError, check_choice, check_sequence
from placement_gym.envs.online.plans import PlanStage, PlanTable, ServingPlan
from placement_gym.graph import pipeline_stages, submodel_devices
from placement_gym.hardware import DevicesArgument, DeviceSpec, resolve_devices
from placement_gym.models import Member, ModelSpec, name_members, parse_rate
from placement_gym.problem import Placement, Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import propose_prefixes
from placement_gym.solvers.pipelines import linear_pipeline

LOAD_MS_PER_MB = 0.25
"""Time to load weights. Chosen because files in the system's cache are read at about 4 GB/s."""
COSTS = {"analytic": "simulated", "profiled": "measured"}
"""Source of times -> the purpose that ``resolve_devices`` takes."""


def propose_plans(
    models: Sequence[str], devices: DevicesArgument, costs: str = "analytic"
) -> PlanTable:
    """Propose plans for each model: single devices, splits, and a pipeline.

    A split is the fastest one on two devices that uses at most the model's share of each memory, so
    the splits of all models fit together. The pipeline has the shortest stages. ``OnlineEnv``
    documents the arguments.

    Raises:
        UserError: A model, device or kind of costs is unknown, or no plan of a model fits.
    """
    check_sequence("models", models, ["resnet", "vit"])
    if not models:
        raise UserError(f"models is a list of one or more names, not {models!r:.80}")
    names, rates = zip(*map(parse_rate, models), strict=True)
    check_choice("costs", costs, COSTS)
    specs = resolve_devices(devices, COSTS[costs])
    twins = [build_simulated_problem(ModelSpec(name), specs, costs) for name in names]
    total = int(sum(twin.problem.total_bytes for twin in twins))
    limits = np.array([device.limit_bytes(total) for device in specs])
    plans = tuple(tuple(plan_model(twin, limits, total)) for twin in twins)
    for model, own in zip(models, plans, strict=True):
        if not own:
            raise UserError(
                f"no plan of {model!r} fits the devices: raise their memory limits, or add a "
                "device without one"
            )
    return PlanTable(tuple(map(Member, name_members(names), rates)), limit(specs, limits), plans)


def limit(devices: Sequence[DeviceSpec], limits: FloatArray) -> tuple[DeviceSpec, ...]:
    """The devices with other limits in bytes, infinite for none."""
    return tuple(
        replace(device, weight_share=None, memory_bytes=int(most) if np.isfinite(most) else None)
        for device, most in zip(devices, limits, strict=True)
    )


def plan_model(twin: SimulatedProblem, limits: FloatArray, total: int) -> Iterator[ServingPlan]:
    """Yield the plans of one model, each placement once."""
    problem = replace(twin.problem, devices=limit(twin.problem.devices, limits))
    share = limits * problem.total_bytes / total
    modest = replace(problem, devices=limit(problem.devices, share))
    seen = set()
    for kind, assignment in list_placements(problem, modest, twin.costs):
        if assignment.tobytes() not in seen and not problem.infeasibility(assignment):
            seen.add(assignment.tobytes())
            # Devices in the order of their first units.
            order = [problem.device_names[device] for device in dict.fromkeys(assignment.tolist())]
            placement = Placement.from_assignment(problem, assignment)
            yield ServingPlan(
                f"{', '.join(order)} {kind}", time_stages(twin, assignment), placement
            )


def list_placements(
    problem: Problem, modest: Problem, costs: CostTable
) -> Iterator[tuple[str, IntArray]]:
    """Yield each plan's kind and placement; some may be equal, or not fit."""
    for device in np.flatnonzero(problem.runs_all):
        yield "alone", problem.single(int(device))
    splits = propose_prefixes(modest)
    ms, feasible = SimulatedBackend(modest, costs).evaluate_batch_exactly(splits)
    for pair in combinations(range(len(modest.devices)), 2):
        fit = np.flatnonzero(feasible & [set(row) == set(pair) for row in splits.tolist()])
        if len(fit):
            yield "split", splits[fit[ms[fit].argmin()]]
    try:
        yield "pipeline", linear_pipeline(problem, costs)
    except UserError:  # nothing fits the devices' memory
        return


def time_stages(twin: SimulatedProblem, assignment: IntArray) -> tuple[PlanStage, ...]:
    """The stages of a placement, each of which receives tensors and then computes."""
    costs, graph = twin.costs, twin.problem.units.graph
    on = assignment[twin.problem.units.of_operator]
    stage_of = pipeline_stages(graph, on)
    device = submodel_devices(graph, on, stage_of)
    ms = (
        np.bincount(stage_of, costs.operator_ms[np.arange(len(on)), on]) + costs.submodel_ms[device]
    )
    tensor, reader = graph.tensors.readings()
    crossing = on[graph.tensors.source[tensor]] != on[reader]
    moved, target = np.unique(np.stack([tensor, stage_of[reader]])[:, crossing], axis=1)
    sender = on[graph.tensors.source[moved]]
    np.add.at(ms, target, costs.transfer_ms[moved, sender, device[target]])
    stage_bytes = np.bincount(stage_of, costs.memory_bytes)
    return tuple(
        PlanStage(
            twin.problem.device_names[device[number]],
            float(ms[number]),
            LOAD_MS_PER_MB * float(stage_bytes[number]) / 1e6,
            int(stage_bytes[number]),
        )
        for number in range(len(device))
    )
