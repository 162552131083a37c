"""Equal steps of a model with state that reads no tokens, such as parts of an audio signal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from placement_gym.base import FloatArray, UserError
from placement_gym.models import Given, read_own
from placement_gym.workloads.request import Shaped
from placement_gym.workloads.scenario import Scenario
from placement_gym.workloads.steps import Step, find_fixed_sizes, shape_nodes_at_step

if TYPE_CHECKING:
    import openvino as ov

NAME = re.compile(r"steps(-(?P<count>[1-9]\d{0,6}))?")
COUNT = 16
"""Steps of ``"steps"``: ours, so many that a first one, which may be slower, counts little."""


@dataclass(frozen=True)
class Signal(Scenario):
    """``count`` inferences of equal shapes: own inputs are the same in each."""

    parts: ClassVar[Sequence[str]] = ("step_ms",)

    count: int = COUNT

    @classmethod
    def of(cls, model: ov.Model, scenario: str | None, inputs: Given | None) -> Self:
        match = NAME.fullmatch(scenario or "steps")
        if match is None:
            raise UserError(
                "the model keeps state and reads no tokens, so its scenario is a number of equal "
                f"steps, as in 'steps-{COUNT}', not {scenario!r:.200}"
            )
        own = read_own(model, inputs)
        count = int(match["count"] or COUNT)
        return cls(count, data_shapes=find_fixed_sizes(model, own), own=own)

    @property
    def name(self) -> str:
        return f"steps-{self.count}"

    def steps(self) -> Sequence[Step]:
        return [Step(1, 1)] * self.count

    def list_shapes(self, model: ov.Model) -> Sequence[Shaped]:
        nodes = shape_nodes_at_step(model, Step(1, 1), self.data_shapes)
        return [Shaped(1.0, nodes), Shaped(self.count - 1.0, nodes)]

    def find_parts(self, times_ms: FloatArray) -> dict[str, float]:
        return {"step_ms": float(np.median(times_ms.mean(axis=1)))}
