"""A single inference of a model without state, at sizes that are stated where it leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from placement_gym.base import UserError
from placement_gym.models import (
    Given,
    find_data_shapes,
    list_dynamic,
    raise_to_bounds,
    read_own,
    shape_nodes,
)
from placement_gym.workloads.request import Request, Shaped

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.workloads.runs import Inputs


@dataclass(frozen=True)
class Inference(Request):
    """One inference. Tensors take memory as at the upper bounds of dynamic dimensions."""

    @classmethod
    def from_model(cls, model: ov.Model, scenario: str | None, inputs: Given | None) -> Self:
        if scenario is not None:
            raise UserError(
                f"the model keeps no state, so scenario={scenario!r} does not apply: leave it out"
            )
        own = read_own(model, inputs, complete=True)
        return cls(data_shapes=find_data_shapes(model, own.sizes), own=own)

    def list_shapes(self, model: ov.Model) -> Sequence[Shaped]:
        if not list_dynamic(model.get_ordered_ops()):
            return [Shaped(1.0, None)]
        one = Shaped(1.0, shape_nodes(model, self.data_shapes))
        if not self.data_shapes:
            return [one]
        largest = raise_to_bounds(model, self.data_shapes)
        return [one, Shaped(0.0, shape_nodes(model, largest))]

    def repeat(self, steps: Sequence[Inputs]) -> Sequence[Inputs]:
        return [[] for _ in steps]
