"""Published workloads, and the user's graphs with costs, as their files hold them."""

from __future__ import annotations

from math import fsum, inf
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, FailFast, Field, FiniteFloat, model_validator

from placement_gym.base import MAX_DEVICES
from placement_gym.base.schemas.reading import MAX_BYTES, Fields, FileFields, Name

MAX_MS = 1e15
"""Largest time, and largest sum of all times, in ms. Hand-tuned."""

Id = Annotated[int, Field(ge=-MAX_BYTES, le=MAX_BYTES)]
Milliseconds = Annotated[FiniteFloat, Field(ge=0.0, le=MAX_MS)]
Amount = Annotated[FiniteFloat, Field(ge=0.0, le=float(MAX_BYTES))]
Flag = bool | Literal[0, 1]


class NodeFields(Fields):
    """A node with its times and the memory that it holds."""

    id: Id
    supported: Flag = Field(alias="supportedOnFpga")
    host_ms: Milliseconds = Field(alias="cpuLatency")
    accelerator_ms: Milliseconds = Field(alias="fpgaLatency")
    backward: Flag = Field(alias="isBackwardNode")
    size_bytes: Amount = Field(alias="size")
    colour: Id | None = Field(None, alias="colorClass")


class EdgeFields(Fields):
    """An edge with the time of its tensor's transfer."""

    source: Id = Field(alias="sourceId")
    target: Id = Field(alias="destId")
    transfer_ms: Milliseconds = Field(alias="cost")
    size_bytes: Amount = Field(0.0, alias="size")


class WorkloadFields(Fields):
    """A workload."""

    n_accelerators: Annotated[int, Field(ge=0, le=MAX_DEVICES - 1)] = Field(alias="maxFPGAs")
    accelerator_bytes: Amount = Field(alias="maxSizePerFPGA")
    nodes: Annotated[list[NodeFields], FailFast(), Field(min_length=1)]
    edges: Annotated[list[EdgeFields], FailFast()]

    @model_validator(mode="after")
    def check_sums(self) -> WorkloadFields:
        """Refuse numbers whose sums a simulation could not hold."""
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
    """A graph with costs, which checks shapes and ranges itself."""

    ms: Rows
    edges: Annotated[list[list[int]], FailFast()]
    edge_bytes: Annotated[list[Amount], FailFast()]
    devices: list[Any]
    gb_per_s: Rows
    link_ms: Rows
    memory_bytes: Annotated[list[Amount], FailFast()]
    names: list[Name]
    name: Name
