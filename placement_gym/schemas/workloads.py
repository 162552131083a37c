"""Published workloads and splits as their files hold them."""

from __future__ import annotations

from math import fsum
from typing import Annotated, Literal

from pydantic import FailFast, Field, FiniteFloat, model_validator

from placement_gym.devices import MAX_DEVICES
from placement_gym.schemas.reading import MAX_BYTES, Fields, Name

MAX_MS = 1e15
"""Of one time, and of the sum of all."""

Id = Annotated[int, Field(ge=-MAX_BYTES, le=MAX_BYTES)]
Milliseconds = Annotated[FiniteFloat, Field(ge=0.0, le=MAX_MS)]
Amount = Annotated[FiniteFloat, Field(ge=0.0, le=float(MAX_BYTES))]
Flag = bool | Literal[0, 1]


class NodeFields(Fields):
    """A node with its times and the memory that it holds."""

    id: Id
    supportedOnFpga: Flag
    cpuLatency: Milliseconds
    fpgaLatency: Milliseconds
    isBackwardNode: Flag
    size: Amount
    colorClass: Id | Name | None = None


class EdgeFields(Fields):
    """An edge with the time of its tensor's transfer."""

    sourceId: Id
    destId: Id
    cost: Milliseconds
    size: Amount = 0.0


class WorkloadFields(Fields):
    """A workload."""

    maxFPGAs: Annotated[int, Field(ge=0, le=MAX_DEVICES - 1)]
    maxSizePerFPGA: Amount
    nodes: Annotated[list[NodeFields], FailFast(), Field(min_length=1)]
    edges: Annotated[list[EdgeFields], FailFast()]

    @model_validator(mode="after")
    def check_sums(self) -> WorkloadFields:
        """Refuse numbers whose sums a simulation could not hold."""
        columns = {
            "cpuLatency": ([node.cpuLatency for node in self.nodes], MAX_MS),
            "fpgaLatency": ([node.fpgaLatency for node in self.nodes], MAX_MS),
            "cost": ([edge.cost for edge in self.edges], MAX_MS),
            "size": ([node.size for node in self.nodes], MAX_BYTES),
            "size of edges": ([edge.size for edge in self.edges], MAX_BYTES),
        }
        for name, (values, most) in columns.items():
            if fsum(values) > most:
                raise ValueError(f"the sum of {name} must be at most {most:.3g}")
        return self


class PartFields(Fields):
    """The nodes on one device."""

    nodes: list[Id]


class SplitFields(Fields):
    """A published split."""

    cpus: Annotated[list[PartFields], Field(max_length=MAX_DEVICES)]
    fpgas: Annotated[list[PartFields], Field(max_length=MAX_DEVICES)]
