"""Schemas of placements, costs, workloads, policies and plans."""

from __future__ import annotations

from math import fsum, inf
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    FiniteFloat,
    RootModel,
    model_validator,
)

from placement_gym.base import MAX_DEVICES
from placement_gym.base.schemas.reading import MAX_BYTES, Fields, FileFields, Name

Devices = Annotated[list[Any], Field(min_length=1, max_length=MAX_DEVICES)]
Numbers = Annotated[list[float], FailFast()]
Reals = Annotated[list[FiniteFloat], FailFast()]
Flags = Annotated[list[bool], FailFast()]
Bytes = Annotated[list[Annotated[int, Field(ge=0, le=MAX_BYTES)]], FailFast()]


class StructureFields(Fields):
    """Operators of a placement's model; ``Structure`` checks their order."""

    kinds: dict[Name, Annotated[str, Field(pattern=r"^.+ \S+ \d{1,18}$")]]
    reads: dict[Name, list[Name]]


class PlacementFields(FileFields):
    """Placement; ``DeviceSpec`` checks the devices."""

    model: Name
    fingerprint: Name
    graph: Literal["folded", "raw"]
    devices: Devices
    units: dict[Name, Name]
    members: dict[Name, list[Name]]
    scenario: Name = ""
    data_shapes: dict[Name, list[Annotated[int, Field(gt=0)]]] = Field(default_factory=dict)
    inputs: Name = ""
    structure: StructureFields | None = None


class CostFields(FileFields):
    """Cost table in format 2; ``CostTable`` checks shapes and ranges."""

    source: Name
    graph: Name
    operators: Annotated[list[Name], FailFast(), Field(min_length=1)]
    devices: Annotated[list[Name], FailFast(), Field(min_length=1, max_length=MAX_DEVICES)]
    transfer_unit: Name
    operator_ms: Annotated[list[Numbers], FailFast()]
    supported: Annotated[list[Flags], FailFast()]
    memory_bytes: Bytes
    transfer_size: Numbers
    link_ms: Annotated[list[Numbers], FailFast()]
    link_ms_per_size: Annotated[list[Numbers], FailFast()]
    submodel_ms: Numbers
    host: Flags
    repeats: list[Annotated[int, Field(gt=0)]] | None = None
    interference: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    structure: Name = ""
    checksum: str | None = None


class ListPolicyFields(Fields):
    """Policy of list schedules, which checks the shapes."""

    shift: Reals
    scale: Annotated[list[Annotated[FiniteFloat, Field(gt=0.0)]], FailFast()]
    hidden: Annotated[list[Reals], FailFast()]
    output: Annotated[list[Reals], FailFast()]
    about: Name = ""


class ReferenceFields(Fields):
    bound_ms: FiniteFloat | None
    placement: list[Annotated[int, Field(ge=0, lt=256)]] | None = None
    version: Name = ""


class ReferencesFile(RootModel[dict[str, ReferenceFields]]):
    """References by model, costs and problem."""


Rules = dict[Annotated[str, Field(min_length=1)], list[Annotated[Name, Field(min_length=1)]]]


class ConstraintFields(Fields):
    """Constraints on placements; users write them, so unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")

    keep_on: Rules = Field(default_factory=dict)
    keep_off: Rules = Field(default_factory=dict)
    inputs: str = ""
    outputs: str = ""
    max_submodels: Annotated[int, Field(ge=1)] | None = None


class StageFields(Fields):
    device: Name
    ms: Annotated[FiniteFloat, Field(gt=0)]
    load_ms: Annotated[FiniteFloat, Field(ge=0)]
    held_bytes: Annotated[int, Field(ge=0, le=MAX_BYTES)]


class ServingPlanFields(Fields):
    """Plan; ``Placement`` checks its placement."""

    label: Name
    stages: Annotated[list[StageFields], Field(min_length=1)]
    placement: dict[str, Any] | None


class MemberFields(Fields):
    name: Name
    rate: Annotated[int, Field(gt=0)]


class PlanTableFields(FileFields):
    """Plans of several models; ``DeviceSpec`` checks the devices."""

    models: Annotated[list[MemberFields], Field(min_length=1)]
    devices: Devices
    plans: list[list[ServingPlanFields]]


MAX_MS = 1e15
"""Maximum time and maximum sum of times in ms. Hand-tuned."""

Id = Annotated[int, Field(ge=-MAX_BYTES, le=MAX_BYTES)]
Milliseconds = Annotated[FiniteFloat, Field(ge=0.0, le=MAX_MS)]
Amount = Annotated[FiniteFloat, Field(ge=0.0, le=float(MAX_BYTES))]
Flag = bool | Literal[0, 1]


class NodeFields(Fields):
    id: Id
    supported: Flag = Field(alias="supportedOnFpga")
    host_ms: Milliseconds = Field(alias="cpuLatency")
    accelerator_ms: Milliseconds = Field(alias="fpgaLatency")
    backward: Flag = Field(alias="isBackwardNode")
    size_bytes: Amount = Field(alias="size")
    colour: Id | None = Field(None, alias="colorClass")


class EdgeFields(Fields):
    source: Id = Field(alias="sourceId")
    target: Id = Field(alias="destId")
    transfer_ms: Milliseconds = Field(alias="cost")
    size_bytes: Amount = Field(0.0, alias="size")


class WorkloadFields(Fields):
    """Workload of dnn-partitioning."""

    n_accelerators: Annotated[int, Field(ge=0, le=MAX_DEVICES - 1)] = Field(alias="maxFPGAs")
    accelerator_bytes: Amount = Field(alias="maxSizePerFPGA")
    nodes: Annotated[list[NodeFields], FailFast(), Field(min_length=1)]
    edges: Annotated[list[EdgeFields], FailFast()]

    @model_validator(mode="after")
    def check_sums(self) -> WorkloadFields:
        """Refuse sums that are too large for a simulation."""
        columns = {
            "cpuLatency": ([node.host_ms for node in self.nodes], MAX_MS),
            "fpgaLatency": ([node.accelerator_ms for node in self.nodes], MAX_MS),
            "cost": ([edge.transfer_ms for edge in self.edges], MAX_MS),
            "size": ([node.size_bytes for node in self.nodes], MAX_BYTES),
            "size of edges": ([edge.size_bytes for edge in self.edges], MAX_BYTES),
        }
        for name, (values, most) in columns.items():
            if fsum(values) > most:
                raise ValueError(f"the sum of {name} must be at most {most:.3g}")
        return self


OrInfinite = Annotated[float, BeforeValidator(lambda value: inf if value is None else value)]
Rows = Annotated[list[list[OrInfinite]], FailFast()]


class CostGraphFields(FileFields):
    """Graph with costs, which checks shapes and ranges."""

    ms: Rows
    edges: Annotated[list[list[int]], FailFast()]
    edge_bytes: Annotated[list[Amount], FailFast()]
    devices: list[Any]
    gb_per_s: Rows
    link_ms: Rows
    memory_bytes: Annotated[list[Amount], FailFast()]
    names: list[Name]
    name: Name
