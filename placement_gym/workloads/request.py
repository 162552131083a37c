"""Requests: the inferences that are timed as one, and what follows from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from placement_gym.base import FloatArray, UserError
from placement_gym.models import (
    DataShapes,
    InputsArgument,
    OwnInputs,
    find_data_shapes,
    is_stateful,
    list_dynamic,
    raise_to_bounds,
    read_own,
    shape_nodes,
)

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.models import Input


WITH_STATE = "placement_gym.workloads.with_state:make_scenario"
"""Makes the request of a model with state, imported where there is one."""


class Shaped(NamedTuple):
    """An inference of a request, with the shapes that nodes have in it.

    Attributes:
        runs: How often it runs; not at all if it stands for the memory of the largest one.
        nodes: Nodes by name with their shapes, dynamic where the data decide them; None leaves
            them as they are.
        inference: Which one it is of those that ``samples.draw`` returns.
    """

    runs: float
    nodes: Mapping[str, ov.Node] | None
    inference: int = 0


@dataclass(frozen=True)
class Request(ABC):
    """The inferences of one request of a model; ``make_request`` chooses the kind.

    Only measurements draw its inputs and run it: see ``samples.draw`` and
    ``runs.start_inferences``.

    Attributes:
        phased: Whether it begins with a prompt, which may have its own placement.
        separable: Whether it is one inference, on whose values operators can run one by one.
        parts: Names of the times that it adds to a measurement, in addition to that of the whole.
        data_shapes: Sizes of inputs that are the same in each inference, where the model leaves
            them dynamic.
        own: The user's inputs.
    """

    phased: ClassVar[bool] = False
    separable: ClassVar[bool] = True
    parts: ClassVar[Sequence[str]] = ()

    data_shapes: DataShapes = field(default_factory=dict, kw_only=True)
    own: OwnInputs = field(default_factory=OwnInputs, compare=False, kw_only=True)

    @classmethod
    @abstractmethod
    def from_model(
        cls, model: ov.Model, scenario: str | None, inputs: InputsArgument | None
    ) -> Self:
        """The request of a model of this kind with these keywords.

        Raises:
            UserError: They do not fit the model.
        """

    @abstractmethod
    def list_shapes(self, model: ov.Model) -> Sequence[Shaped]:
        """The inferences of a request by their shapes.

        Costs are sums over them; memory is that of the last, which may run 0 times.
        """

    @property
    def n_samples(self) -> int:
        """Samples on which outputs are compared: all of the user's own, else a generated one."""
        return len(self.own.samples) or 1

    def find_parts(self, times_ms: FloatArray) -> dict[str, float]:
        """The median times of ``parts`` in ms, of (n_runs, n_inferences) times."""
        return {}

    def repeat(self, steps: Sequence[list[Input]]) -> Sequence[list[Input]]:
        """Inputs that each further run sets, an empty list for an inference that keeps them."""
        return steps

    def keywords(self) -> dict[str, Any]:
        """The fields of a ``Placement`` that say what was measured."""
        fields = {"data_shapes": dict(self.data_shapes), "inputs": self.own.fingerprint}
        return {name: value for name, value in fields.items() if value}

    def list_lines(self) -> list[str]:
        """Its part of the model's fingerprint: sizes, but not values."""
        return [f"{name}{list(sizes)}" for name, sizes in sorted(self.data_shapes.items())]

    def list_notes(self) -> list[str]:
        """Notes for the user before a measurement."""
        sizes = [f"{name}[{','.join(map(str, shape))}]" for name, shape in self.data_shapes.items()]
        count = len(self.own.samples)
        samples = f"{count} samples of your own, timed with the first"
        own = ["inputs of your own" if count == 1 else samples] * bool(count)
        return [f"measured with {', '.join([*own, *sizes])}"] if own or sizes else []


@dataclass(frozen=True)
class Inference(Request):
    """One inference. Tensors take memory as at the upper bounds of dynamic dimensions."""

    @classmethod
    def from_model(
        cls, model: ov.Model, scenario: str | None, inputs: InputsArgument | None
    ) -> Self:
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

    def repeat(self, steps: Sequence[list[Input]]) -> Sequence[list[Input]]:
        return [[] for _ in steps]


def make_request(
    model: ov.Model, scenario: str | None = None, inputs: InputsArgument | None = None
) -> Request:
    """The inferences of one request of a model.

    Args:
        model: As ``load_model`` returns it.
        scenario: As for ``gym.make``.
        inputs: As for ``gym.make``.

    Raises:
        UserError: The keywords do not fit the model.
    """
    make = resolve_name(WITH_STATE) if is_stateful(model) else Inference.from_model
    request: Request = make(model, scenario, inputs)
    return request
