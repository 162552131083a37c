"""The interface of requests: the inferences that are timed as one, and what follows from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from placement_gym.models.shapes import Shapes
from placement_gym.workloads.runs import Beat, EngineRequest, Inferences, Inputs

if TYPE_CHECKING:
    import openvino as ov


class Shaped(NamedTuple):
    """An inference of a request, with the shapes that nodes have in it.

    Attributes:
        runs: How often it runs; not at all if it stands for the memory of the largest one.
        nodes: Nodes by name with their shapes, dynamic where the data decide them; None leaves
            them as they are.
        inference: Which one it is of those of ``Request.sample_inputs``.
    """

    runs: float
    nodes: Mapping[str, ov.Node] | None
    inference: int = 0


class Request(ABC):
    """The inferences of one request of a model. Each kind has a file; ``kinds.KINDS`` lists them.

    Attributes:
        phased: Whether it begins with a prompt, which may have a placement of its own.
        separable: Whether operators can be run one by one, on the values of one inference.
        parts: Names of the times that it adds to a measurement, in addition to that of the whole.
    """

    phased: ClassVar[bool] = False
    separable: ClassVar[bool] = True
    parts: ClassVar[Sequence[str]] = ()

    @classmethod
    @abstractmethod
    def of(cls, model: ov.Model, scenario: str | None, data_shapes: Shapes | None) -> Self:
        """The request of a model of this kind with these keywords.

        Raises:
            UserError: They do not fit the model.
        """

    @abstractmethod
    def list_shapes(self, model: ov.Model) -> Sequence[Shaped]:
        """The inferences of a request by their shapes.

        Costs are sums over them; memory is that of the last, which may run 0 times.
        """

    @abstractmethod
    def sample_inputs(self, model: ov.Model) -> list[Inputs]:
        """(n_inferences,) the inputs of each inference, the same each time."""

    @abstractmethod
    def start(self, request: EngineRequest, steps: Sequence[Inputs], beat: Beat) -> Inferences:
        """Run once with these inputs, and return what runs again."""

    def repeat(self, steps: Sequence[Inputs]) -> Sequence[Inputs]:
        """Inputs that each further run sets, an empty list for an inference that keeps them."""
        return steps

    @abstractmethod
    def keywords(self) -> dict[str, Any]:
        """The keywords of ``gym.make`` that make it again."""

    @abstractmethod
    def list_lines(self) -> list[str]:
        """Its part of the model's fingerprint."""

    @abstractmethod
    def list_notes(self) -> list[str]:
        """Notes for the user before a measurement."""
