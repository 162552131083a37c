"""A single inference of a model without state, at sizes that are stated where it leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from placement_gym.base.errors import UserError
from placement_gym.models.data_shapes import (
    DataShapes,
    find_data_shapes,
    raise_to_bounds,
    shape_nodes,
)
from placement_gym.models.shapes import Shapes, list_dynamic
from placement_gym.workloads.request import Request, Shaped
from placement_gym.workloads.runs import Beat, EngineRequest, Inputs, SingleInference
from placement_gym.workloads.samples import sample_inputs

if TYPE_CHECKING:
    import openvino as ov


@dataclass(frozen=True)
class Inference(Request):
    """One inference.

    Attributes:
        data_shapes: The sizes of inputs with dynamic dimensions. Tensors take memory as at the
            upper bounds of these dimensions.
    """

    data_shapes: DataShapes = field(default_factory=dict)

    @classmethod
    def of(cls, model: ov.Model, scenario: str | None, data_shapes: Shapes | None) -> Self:
        if scenario is not None:
            raise UserError(
                f"the model keeps no state, so scenario={scenario!r} does not apply: leave it out"
            )
        return cls(find_data_shapes(model, data_shapes))

    def list_shapes(self, model: ov.Model) -> Sequence[Shaped]:
        if not list_dynamic(model.get_ordered_ops()):
            return [Shaped(1.0, None)]
        one = Shaped(1.0, shape_nodes(model, self.data_shapes))
        if not self.data_shapes:
            return [one]
        largest = raise_to_bounds(model, self.data_shapes)
        return [one, Shaped(0.0, shape_nodes(model, largest))]

    def sample_inputs(self, model: ov.Model) -> list[Inputs]:
        return [sample_inputs(model, self.data_shapes)]

    def start(self, request: EngineRequest, steps: Sequence[Inputs], beat: Beat) -> SingleInference:
        return SingleInference(request, steps[0], beat)

    def repeat(self, steps: Sequence[Inputs]) -> Sequence[Inputs]:
        return [[] for _ in steps]

    def keywords(self) -> dict[str, Any]:
        return {"data_shapes": dict(self.data_shapes)}

    def list_lines(self) -> list[str]:
        return [f"{name}{list(sizes)}" for name, sizes in sorted(self.data_shapes.items())]

    def list_notes(self) -> list[str]:
        sizes = [f"{name}[{','.join(map(str, shape))}]" for name, shape in self.data_shapes.items()]
        return [f"measured with {', '.join(sizes)}"] if sizes else []
