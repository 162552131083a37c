"""Requests: inferences that are timed as one."""

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
"""Makes the request of a model with state; imported only for such models."""


class Shaped(NamedTuple):
    """An inference of a request, with its shapes.

    Attributes:
        runs: Number of runs; 0 if it only states the memory of the largest inference.
        nodes: Name -> node with shapes, dynamic if the data decide them; None: as in the model.
        inference: Its index in what ``samples.draw`` returns.
    """

    runs: float
    nodes: Mapping[str, ov.Node] | None
    inference: int = 0


@dataclass(frozen=True)
class Request(ABC):
    """The inferences of one request of a model; ``make_request`` chooses the kind.

    Measurements draw its inputs by ``samples.draw`` and run it by ``runs.start_inferences``.

    Attributes:
        phased: Whether it begins with a prompt, which may have its own placement.
        separable: Whether it is one inference, whose operators can also run one by one.
        parts: Names of times that a measurement also has.
        data_shapes: Sizes of dynamic inputs that are the same in each inference.
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
        """The request of a model; ``UserError`` if the keywords do not fit it."""

    @abstractmethod
    def list_shapes(self, model: ov.Model) -> Sequence[Shaped]:
        """The inferences by their shapes: costs are sums over all, memory is that of the last."""

    @property
    def n_samples(self) -> int:
        """Number of samples on which outputs are compared: the user's, or a generated one."""
        return len(self.own.samples) or 1

    def find_parts(self, times_ms: FloatArray) -> dict[str, float]:
        """Median times of ``parts`` in ms, from (n_runs, n_inferences) times."""
        return {}

    def repeat(self, steps: Sequence[list[Input]]) -> Sequence[list[Input]]:
        """Inputs that each further run sets; none for an inference that keeps them."""
        return steps

    def keywords(self) -> dict[str, Any]:
        """Fields of a ``Placement`` that describe the request."""
        fields = {"data_shapes": dict(self.data_shapes), "inputs": self.own.fingerprint}
        return {name: value for name, value in fields.items() if value}

    def list_lines(self) -> list[str]:
        """Its part of the model's fingerprint: sizes without values."""
        return [f"{name}{list(sizes)}" for name, sizes in sorted(self.data_shapes.items())]

    def list_notes(self) -> list[str]:
        """Notes for the user before a measurement."""
        used = [f"{name}[{','.join(map(str, shape))}]" for name, shape in self.data_shapes.items()]
        if count := len(self.own.samples):
            samples = f"{count} samples of your own, timed with the first"
            used.insert(0, "inputs of your own" if count == 1 else samples)
        return [f"measured with {', '.join(used)}"] if used else []


@dataclass(frozen=True)
class Inference(Request):
    """One inference; memory is that of the upper bounds of dynamic dimensions."""

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
    """The request of a model, as ``load_model`` returns it; other arguments as for ``gym.make``.

    Raises:
        UserError: The keywords do not fit the model.
    """
    make = resolve_name(WITH_STATE) if is_stateful(model) else Inference.from_model
    request: Request = make(model, scenario, inputs)
    return request
