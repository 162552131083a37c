"""Specification of the model to place."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from placement_gym.base import check_choice, make_temporary_folder
from placement_gym.models.built_in import match_built_in
from placement_gym.models.inputs import read_older, states_sizes
from placement_gym.models.loading import list_models, load_model
from placement_gym.models.shapes import InputsArgument, Shapes
from placement_gym.models.union import parse_rate

if TYPE_CHECKING:
    import openvino as ov

ModelArgument: TypeAlias = "str | Path | ov.Model | Sequence[Any]"
"""Name, path or model, or several of them."""
VIEWS = ("folded", "raw")
GRANULARITIES = ("op", "colocated", "fused")


@dataclass(frozen=True)
class ModelSpec:
    """The model to place, its units, and its sizes.

    Attributes:
        model: See ``load_model``; or the ``.json`` of a workload or the name of a generated graph,
            which can only be simulated. A list of several models becomes a tuple.
        granularity: Kind of units, see ``graph.units.group``.
        graph: View of the operators, see ``graph.extract``.
        shapes: See ``load_model``.
        inputs: See ``load_model``.
        scenario: One run of a model with state, see ``Conversation.parse``.
        extension: See ``load_model``.

    Raises:
        UserError: The granularity or the view is unknown, or the list of models is invalid.
    """

    model: ModelArgument = "resnet"
    granularity: str = "colocated"
    graph: str = "folded"
    shapes: Shapes | None = field(default=None, hash=False)
    inputs: InputsArgument | None = field(default=None, compare=False)
    scenario: str | None = None
    extension: str | Path | None = None

    def __post_init__(self) -> None:
        models = list_models(self.model)
        if isinstance(self.model, (list, tuple)):
            model = models[0][0] if len(models) == 1 else tuple(self.model)
            object.__setattr__(self, "model", model)
        if self.extension:  # working folders of processes may differ
            object.__setattr__(self, "extension", os.path.realpath(self.extension))
        check_choice("granularity", self.granularity, GRANULARITIES)
        check_choice("graph", self.graph, VIEWS)

    @classmethod
    def from_kwargs(cls, kwargs: Mapping[str, Any]) -> ModelSpec:
        """Make the specification from arguments of ``gym.make``; ignore others."""
        kwargs = read_older(kwargs)
        return cls(**{one.name: kwargs[one.name] for one in fields(cls) if one.name in kwargs})

    @property
    def fused(self) -> bool:
        """True if units are what the CPU executes as one primitive."""
        return self.granularity == "fused"

    def load(self) -> ov.Model:
        return load_model(self.model, self.shapes, self.inputs, self.extension)

    def with_model(
        self, model: Any, shapes: Shapes | None, inputs: InputsArgument | None
    ) -> ModelSpec:
        """Replace shapes, and the model and inputs unless they are None."""
        return replace(
            self,
            model=self.model if model is None else model,
            shapes=shapes,
            inputs=self.inputs if inputs is None else inputs,
        )

    def with_loaded_model(self, model: ov.Model) -> ModelSpec:
        """Replace a model in memory by the loaded model."""
        return replace(self, model=model, shapes=None) if self.in_memory else self

    @property
    def in_memory(self) -> bool:
        """True if the model, or one of several, is neither a name nor a path."""
        models = self.model if isinstance(self.model, tuple) else (self.model,)
        return not all(isinstance(model, (str, Path)) for model in models)

    def to_json(self) -> dict[str, Any]:
        """Return given fields as arguments of ``gym.make``, for JSON except models in memory."""
        return {name: make_plain(value) for name, value in vars(self).items() if value}

    @contextmanager
    def as_file(self) -> Iterator[dict[str, Any]]:
        """Yield ``to_json`` for another process, with files of models and inputs in memory."""
        with ExitStack() as stack:
            model, inputs = self.model, self.inputs
            if self.in_memory:
                from placement_gym.models.model_files import write_model

                file = stack.enter_context(make_temporary_folder()) / "model.xml"
                write_model(self.load() if isinstance(model, tuple) else model, file)
                model = str(file)
            if isinstance(inputs, (str, Path)):
                inputs = os.path.realpath(inputs)
            elif inputs is not None and not states_sizes(inputs):
                from placement_gym.models.own_inputs import save_inputs

                folder = stack.enter_context(make_temporary_folder())
                inputs = str(save_inputs(inputs, folder / "inputs"))
            yield replace(self, model=make_absolute(model), inputs=inputs).to_json()


def make_plain(value: Any) -> Any:
    """Replace paths, tuples and mappings by text, lists and dictionaries."""
    if isinstance(value, tuple):
        return list(map(make_plain, value))
    if isinstance(value, Path):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else value


def make_absolute(model: Any) -> Any:
    """Make the paths of one or several models absolute; keep names and rates."""
    if isinstance(model, tuple):
        return tuple(map(make_absolute, model))
    if len(list_models(model)) > 1:  # a union of built-in ones by its name
        return str(model)
    name, rate = parse_rate(str(model))
    name = name if match_built_in(name) else os.path.realpath(name)
    return name if rate == 1 else f"{name}:{rate}"
