"""What OpenVINO reports of a model before it is placed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from placement_gym.models import FoundShapes


@dataclass(frozen=True)
class Inspection:
    """Operators and primitives of a model, as OpenVINO reports them.

    Attributes:
        operators: For each device, the names of the operators that it supports.
        primitives: Operator to the primitive that the CPU executes; None if not requested.
        found: Of each shape of the request the shapes that the data decide; empty without such.
    """

    operators: list[list[str]]
    primitives: dict[str, str] | None
    found: Sequence[FoundShapes] = field(default_factory=list)
