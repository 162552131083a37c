"""What OpenVINO reports of a model before it is placed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Inspection:
    """Operators and primitives of a model, as OpenVINO reports them.

    Attributes:
        operators: For each device, the names of the operators that it supports.
        primitives: Operator to the primitive that the CPU executes; None if not requested.
    """

    operators: list[list[str]]
    primitives: dict[str, str] | None
