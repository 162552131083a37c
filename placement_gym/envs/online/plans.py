"""Plans that requests choose from: the ways in which each of several models may run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.build import SimulatedProblem, build_simulated_problem
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError, unknown_name
from placement_gym.base.json_file import JsonFile
from placement_gym.envs.online.kernel import Tables
from placement_gym.graph.submodels import pipeline_stages, submodel_devices
from placement_gym.hardware.device_requests import DevicesArgument, parse_list, resolve_devices
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.hardware.memory_groups import MemoryGroups
from placement_gym.models.spec import ModelSpec
from placement_gym.models.union import Member, name_members, parse_rate
from placement_gym.problem.placement import Placement
from placement_gym.problem.problem import Problem
from placement_gym.solvers.heuristics import propose_prefixes
from placement_gym.solvers.pipelines.pipeline import linear_pipeline

FORMAT = 1
LOAD_MS_PER_MB = 0.25
"""Time to bring weights to a device: 4 GB/s, as from files that the system keeps in memory."""


@dataclass(frozen=True)
class PlanStage:
    """What one device does in a plan.

    Attributes:
        device: Its name.
        ms: Time on the idle device, tensors that come from other devices included.
        load_ms: Time to load the weights where the device does not hold them.
        held_bytes: Their size.
    """

    device: str
    ms: float
    load_ms: float
    held_bytes: int


@dataclass(frozen=True)
class ServingPlan:
    """A way to serve a request of one model: stages that run one after another.

    Attributes:
        label: As in ``"GPU alone"`` or ``"split CPU, GPU"``.
        stages: In order.
        placement: Where each unit goes; None for a plan that is only simulated.
    """

    label: str
    stages: tuple[PlanStage, ...]
    placement: Placement | None = None

    @property
    def ms(self) -> float:
        """Latency on idle devices that hold the weights."""
        return sum(stage.ms for stage in self.stages)


@dataclass(frozen=True)
class PlanTable(JsonFile):
    """The plans of several models on common devices.

    Attributes:
        models: Names, and how often requests are for each.
        devices: The devices; a limit is that of the weights of all models together.
        plans: For each model the plans that its requests choose from.

    Raises:
        UserError: A model has no plan, or a plan names an unknown device.
    """

    kind: ClassVar = "a file of plans"

    models: tuple[Member, ...]
    devices: tuple[DeviceSpec, ...]
    plans: tuple[tuple[ServingPlan, ...], ...]

    def __post_init__(self) -> None:
        if len(self.models) != len(self.plans):
            raise UserError(f"{len(self.models)} models have plans of {len(self.plans)}")
        names = [device.name for device in self.devices]
        for stage in self.stages():
            if stage.device not in names:
                raise unknown_name("the device of a stage", stage.device, names)
        for model, plans in zip(self.models, self.plans, strict=True):
            if not plans:
                raise UserError(
                    f"no plan of {model.name!r} fits the devices: raise their memory limits, or "
                    "add a device without one"
                )

    def __str__(self) -> str:
        """One line for each plan."""
        return "\n".join(
            f"{model.name}: {number} {plan.label}, "
            + " then ".join(
                f"{stage.ms:.2f} ms on {stage.device} ({stage.held_bytes / 1e6:.0f} MB)"
                for stage in plan.stages
            )
            for model, plans in zip(self.models, self.plans, strict=True)
            for number, plan in enumerate(plans)
        )

    @property
    def n_plans(self) -> int:
        """The largest number of plans of a model."""
        return max(map(len, self.plans))

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Of the requests, for each model."""
        rates = [model.rate for model in self.models]
        return tuple(rate / sum(rates) for rate in rates)

    @cached_property
    def mean_ms(self) -> float:
        """Mean latency of requests that run alone by the fastest plan of their model."""
        fastest = [min(plan.ms for plan in plans) for plans in self.plans]
        return float(np.dot(self.shares, fastest))

    def stages(self) -> Iterator[PlanStage]:
        """The stages of all plans of all models, in the order of their numbers."""
        return (stage for plans in self.plans for plan in plans for stage in plan.stages)

    @cached_property
    def tables(self) -> Tables:
        """The same as arrays, which the kernels read."""
        names = [device.name for device in self.devices]
        lengths = np.zeros((len(self.models), self.n_plans), dtype=np.int64)
        for model, plans in enumerate(self.plans):
            lengths[model, : len(plans)] = [len(plan.stages) for plan in plans]
        stages = list(self.stages())
        groups = MemoryGroups.of(self.devices, 0)
        return Tables(
            first=np.concatenate([[0], np.cumsum(lengths)]),
            allowed=lengths > 0,
            device=np.array([names.index(stage.device) for stage in stages], dtype=np.int64),
            work_ms=np.array([stage.ms for stage in stages]),
            load_ms=np.array([stage.load_ms for stage in stages]),
            held_bytes=np.array([float(stage.held_bytes) for stage in stages]),
            group=groups.of_device,
            limit_bytes=groups.limits_bytes,
            reference_ms=np.array([min(plan.ms for plan in plans) for plans in self.plans]),
        )

    def to_json(self) -> dict[str, Any]:
        """The contents of a file of plans."""
        return {
            "format": FORMAT,
            "models": [model._asdict() for model in self.models],
            "devices": [device.to_json() for device in self.devices],
            "plans": [
                [
                    {
                        "label": plan.label,
                        "stages": [vars(stage) for stage in plan.stages],
                        "placement": plan.placement and plan.placement.to_json(),
                    }
                    for plan in plans
                ]
                for plans in self.plans
            ],
        }

    @classmethod
    def of_json(cls, values: Any) -> Self:
        from placement_gym.base.schemas.files import PlanTableFields
        from placement_gym.base.schemas.reading import check, check_format

        check_format(values, FORMAT)
        fields = check(PlanTableFields, values)
        return cls(
            tuple(Member(model.name, model.rate) for model in fields.models),
            parse_list([DeviceSpec.from_json(device) for device in fields.devices]),
            tuple(
                tuple(
                    ServingPlan(
                        plan.label,
                        tuple(PlanStage(**dict(stage)) for stage in plan.stages),
                        None if plan.placement is None else Placement.of_json(plan.placement),
                    )
                    for plan in plans
                )
                for plans in fields.plans
            ),
        )


def propose_plans(
    models: Sequence[str], devices: DevicesArgument, costs: str | None = None
) -> PlanTable:
    """Let the solvers propose plans for each model.

    These are the devices alone; for each two of them the fastest split of which every device holds
    no more than the model's share of its memory, so that the splits of all models fit at once; and
    the pipeline with the shortest stages.

    Args:
        models: Names or paths; ``"resnet:2"`` gets twice as many requests.
        devices: As for ``DevicePlacementSim-v0``; ``weight_share`` is of all models together.
        costs: ``"analytic"`` or ``"profiled"``; None is the former.

    Raises:
        UserError: A model or device is unknown, or no plan of a model fits.
    """
    if isinstance(models, str) or not models:
        raise UserError(f"models is a list of one or more names, not {models!r:.80}")
    names, rates = zip(*map(parse_rate, models), strict=True)
    specs = resolve_devices(devices, "simulated" if costs != "profiled" else "measured")
    twins = [build_simulated_problem(ModelSpec(name), specs, costs) for name in names]
    total = int(sum(twin.problem.total_bytes for twin in twins))
    limits = [device.limit_bytes(total) for device in specs]
    return PlanTable(
        tuple(map(Member, name_members(names), rates)),
        limit(specs, limits),
        tuple(tuple(plan_model(twin, limits, total)) for twin in twins),
    )


def limit(devices: Sequence[DeviceSpec], limits: Sequence[float]) -> tuple[DeviceSpec, ...]:
    """The devices with limits in bytes, infinite for none."""
    return tuple(
        replace(device, weight_share=None, memory_bytes=int(most) if np.isfinite(most) else None)
        for device, most in zip(devices, limits, strict=True)
    )


def plan_model(
    twin: SimulatedProblem, limits: Sequence[float], total: int
) -> Iterator[ServingPlan]:
    """The plans of one model, each placement once; see ``propose_plans``."""
    problem = replace(twin.problem, devices=limit(twin.problem.devices, limits))
    share = [most * problem.total_bytes / total for most in limits]
    modest = replace(problem, devices=limit(problem.devices, share))
    seen = set()
    for label, assignment in (
        *list_single_devices(problem),
        *split_pairs(modest, twin),
        *find_pipeline(problem, twin),
    ):
        if assignment.tobytes() not in seen and not problem.infeasibility(assignment):
            seen.add(assignment.tobytes())
            yield ServingPlan(
                label, time_stages(twin, assignment), Placement.of(problem, assignment)
            )


def list_single_devices(problem: Problem) -> Iterator[tuple[str, IntArray]]:
    """Each device that can run the whole model, alone."""
    for device in np.flatnonzero(problem.runs_all):
        yield f"{problem.device_names[device]} alone", problem.single(int(device))


def split_pairs(modest: Problem, twin: SimulatedProblem) -> Iterator[tuple[str, IntArray]]:
    """The fastest prefix split on each two devices, if one fits."""
    backend = SimulatedBackend(modest, twin.costs)
    placements = propose_prefixes(modest)
    latency_ms, feasible = backend.evaluate_batch_exactly(placements)
    for pair in combinations(range(len(modest.devices)), 2):
        on_both = [set(one.tolist()) == set(pair) for one in placements]
        fit = np.flatnonzero(feasible & on_both)
        if len(fit):
            best = placements[fit[latency_ms[fit].argmin()]]
            yield label_split("split", modest, best), best


def find_pipeline(problem: Problem, twin: SimulatedProblem) -> Iterator[tuple[str, IntArray]]:
    """The contiguous split with the shortest longest stage, if one fits."""
    try:
        found = linear_pipeline(problem, twin.costs)
    except UserError:  # nothing fits the devices' memory
        return
    yield label_split("pipeline", problem, found), found


def label_split(kind: str, problem: Problem, assignment: IntArray) -> str:
    """``"split CPU, GPU"``: devices in the order in which units are first on them."""
    order = dict.fromkeys(assignment.tolist())
    return f"{kind} {', '.join(problem.device_names[device] for device in order)}"


def time_stages(twin: SimulatedProblem, assignment: IntArray) -> tuple[PlanStage, ...]:
    """The stages of a placement; each receives its tensors before it computes."""
    costs, graph = twin.costs, twin.problem.units.graph
    on = assignment[twin.problem.units.of_operator]
    stage_of = pipeline_stages(graph, on)
    device = submodel_devices(graph, on, stage_of)
    ms = (
        np.bincount(stage_of, costs.operator_ms[np.arange(len(on)), on]) + costs.submodel_ms[device]
    )
    tensor, reader = graph.tensors.readings()
    source = graph.tensors.source[tensor]
    crossing = on[source] != on[reader]
    moved, target = np.unique(np.stack([tensor, stage_of[reader]])[:, crossing], axis=1)
    sender = on[graph.tensors.source[moved]]
    np.add.at(ms, target, costs.transfer_ms[moved, sender, device[target]])
    held = np.bincount(stage_of, costs.memory_bytes)
    return tuple(
        PlanStage(
            twin.problem.device_names[device[number]],
            float(ms[number]),
            LOAD_MS_PER_MB * float(held[number]) / 1e6,
            int(held[number]),
        )
        for number in range(len(device))
    )
