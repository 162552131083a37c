"""The plans of several models, which requests are served by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from placement_gym.base import FloatArray, JsonFile, UserError, check_choice
from placement_gym.envs.online.kernel import Tables
from placement_gym.hardware import DeviceSpec, parse_list
from placement_gym.models import Member
from placement_gym.problem import MemoryGroups, Placement

FORMAT = 1


@dataclass(frozen=True)
class PlanStage:
    """The work of one device in a plan.

    Attributes:
        device: Name of the device.
        ms: Time on the idle device, transfers from other devices included.
        load_ms: Time to load the weights.
        held_bytes: Size of the weights.
    """

    device: str
    ms: float
    load_ms: float
    held_bytes: int


@dataclass(frozen=True)
class ServingPlan:
    """A way to serve a request of one model: stages that run one after another.

    Attributes:
        label: Such as ``"GPU alone"`` or ``"CPU, GPU split"``.
        stages: The stages in order.
        placement: Device of each unit; None if the plan's file does not state it.
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
        models: Names and rates of the models.
        devices: The devices; their limits apply to the weights of all models together.
        plans: The plans of each model.

    Raises:
        UserError: A model has no plan, or a plan names an unknown device.
    """

    kind: ClassVar = "a file of plans"

    models: tuple[Member, ...]
    devices: tuple[DeviceSpec, ...]
    plans: tuple[tuple[ServingPlan, ...], ...]

    def __post_init__(self) -> None:
        if len(self.models) != len(self.plans) or not all(self.plans):
            raise UserError(f"{len(self.models)} models have {[*map(len, self.plans)]} plans")
        names = [device.name for device in self.devices]
        for stage in self.stages():
            check_choice("the device of a stage", stage.device, names)

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

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Share of the requests for each model."""
        rates = [model.rate for model in self.models]
        return tuple(rate / sum(rates) for rate in rates)

    @cached_property
    def mean_ms(self) -> float:
        """Mean latency of requests served alone by the fastest plans."""
        fastest = [min(plan.ms for plan in plans) for plans in self.plans]
        return float(np.dot(self.shares, fastest))

    def stages(self) -> Iterator[PlanStage]:
        """The stages of all plans of all models, numbered in this order."""
        return (stage for plans in self.plans for plan in plans for stage in plan.stages)

    @cached_property
    def tables(self) -> Tables:
        """The plans as arrays for kernels."""
        names = [device.name for device in self.devices]
        lengths = np.zeros((len(self.models), max(map(len, self.plans))), dtype=np.int64)
        for model, plans in enumerate(self.plans):
            lengths[model, : len(plans)] = [len(plan.stages) for plan in plans]
        stages, groups = list(self.stages()), MemoryGroups.from_devices(self.devices, 0)
        tables = Tables(
            first=np.concatenate([[0], np.cumsum(lengths)]),
            allowed=lengths > 0,
            device=np.array([names.index(stage.device) for stage in stages], dtype=np.int64),
            work_ms=np.array([stage.ms for stage in stages]),
            load_ms=np.array([stage.load_ms for stage in stages]),
            held_bytes=np.array([float(stage.held_bytes) for stage in stages]),
            log_work=np.empty(0),
            group=groups.of_device,
            limit_bytes=groups.limits_bytes,
            reference_ms=np.array([min(plan.ms for plan in plans) for plans in self.plans]),
        )
        work_ms = sum_by_device(tables, tables.work_ms)
        return tables._replace(log_work=np.log1p(work_ms / tables.reference_ms.mean()))

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
                        "stages": [{**vars(stage)} for stage in plan.stages],
                        "placement": plan.placement and plan.placement.to_json(),
                    }
                    for plan in plans
                ]
                for plans in self.plans
            ],
        }

    @classmethod
    def from_json(cls, values: Any) -> Self:
        from placement_gym.base.schemas import PlanTableFields

        fields = PlanTableFields.read(values, FORMAT)
        return cls(
            tuple(Member(model.name, model.rate) for model in fields.models),
            parse_list([DeviceSpec.from_json(device) for device in fields.devices]),
            tuple(
                tuple(
                    ServingPlan(
                        plan.label,
                        tuple(PlanStage(**dict(stage)) for stage in plan.stages),
                        None if plan.placement is None else Placement.from_json(plan.placement),
                    )
                    for plan in plans
                )
                for plans in fields.plans
            ),
        )


def sum_by_device(tables: Tables, values: FloatArray) -> FloatArray:
    """(n_models, n_plans, n_devices) sums of (n_stages,) values such as work or weights."""
    sums = np.zeros((tables.allowed.size, len(tables.group)))
    plan_of_stage = np.repeat(np.arange(len(sums)), np.diff(tables.first))
    np.add.at(sums, (plan_of_stage, tables.device), values)
    return sums.reshape(*tables.allowed.shape, -1)
