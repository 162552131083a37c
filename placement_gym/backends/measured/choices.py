"""Choices in a model: operators that turn real numbers into indices, counts or truth values.

Rounding may change a choice, and every output behind it. So these outputs are compared with the
reference's for the same choice, and the choice is judged by the reference's values that it picks:
they have to be as good within the tolerance. Operators that choose inside are judged by results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.measured.choice_errors import (
    ERRORS,
    INSIDE,
    LABELS,
    WRONG,
    Array,
    Arrays,
)
from placement_gym.backends.measured.outputs import MAX_NAMED_OPERATORS
from placement_gym.base import join_words
from placement_gym.graph import list_inside
from placement_gym.workloads import Inputs, Outputs

if TYPE_CHECKING:
    import openvino as ov

CHOICE = {"TopK": 1}
"""Index of the output that is the choice, where it is not the first."""
PADDED = ("NonMaxSuppression", "MulticlassNms", "MatrixNms")
"""Types for which a GPU returns the maximum number of rows and fills the free ones with -1."""
EXACT_KINDS = ("Convert", "Equal", "NotEqual")
"""Types that rounding does not change where they read whole numbers, as in masks of tokens."""
KEEPS_WHOLE = ("Convert", "Add", "Subtract", "Reshape", "Squeeze", "Unsqueeze", "Broadcast")
"""Operators between a mask and its choice that turn whole numbers into whole numbers."""
MAX_RULES = 4
"""Outputs behind choices that are described one by one. Hand-tuned."""


@dataclass(frozen=True)
class Choice:
    """An operator that chooses.

    Attributes:
        sources: Index -> name and output index, of the reference's tensors that it is judged by:
            its inputs, or its own outputs if it chooses inside.
        ports: Indices of its outputs that others read; all if it chooses inside.
    """

    name: str
    kind: str
    sources: Mapping[int, tuple[str, int]]
    ports: tuple[int, ...]
    attributes: Mapping[str, Any]

    @classmethod
    def find(cls, node: ov.Node) -> Choice | None:
        """Return the choice of a node that chooses by real numbers and whose choice is read."""
        name, kind, inputs = node.get_friendly_name(), node.get_type_name(), node.inputs()
        if kind in INSIDE:
            inside = list(list_inside(node))
            if inside and all(cls.find(one) is None for one in inside):
                return None
            ports = tuple(range(node.get_output_size()))
            sources = {port: (name, port) for port in ports}
            return cls(name, kind, sources, ports, node.get_attributes())
        if kind not in ERRORS or not inputs[0].get_element_type().is_real():
            return None
        if kind in EXACT_KINDS and all(is_whole(port.get_source_output()) for port in inputs):
            return None
        read = [port.get_index() for port in node.outputs() if port.get_target_inputs()]
        chosen = node.output(CHOICE.get(kind, 0))
        if chosen.get_index() not in read:
            return None
        if kind == "Convert" and chosen.get_element_type().is_real():
            return None
        if kind == "NonMaxSuppression" and (node.get_output_size() < 3 or is_soft(node)):
            return None
        made = enumerate(port.get_source_output() for port in inputs)
        sources = {i: (port.get_node().get_friendly_name(), port.get_index()) for i, port in made}
        return cls(name, kind, sources, tuple(read), node.get_attributes())

    @property
    def rule(self) -> str:
        """How it is judged, in words."""
        if self.kind in LABELS:
            return "of which half has to be the reference's within the tolerance"
        if self.is_inside:
            return "whose rows have to be the reference's within the tolerance, or nearly tie"
        return "which has to be as good within the tolerance"

    @property
    def is_inside(self) -> bool:
        """True if it returns no indices of what it picked."""
        return self.kind in INSIDE

    def find_error(self, known: Arrays, outputs: Arrays, limit: float) -> float:
        """The relative error of its outputs, given the arrays of ``sources``: see ``ERRORS``."""
        outputs = {port: self.drop_free(array) for port, array in outputs.items()}
        try:
            return ERRORS[self.kind](known, outputs, self.attributes, limit)
        except ValueError:  # of other shapes
            return WRONG

    def drop_free(self, array: Array) -> Array:
        """Drop the rows that a device filled with -1."""
        if self.kind not in PADDED or array.ndim != 2:
            return array
        return array[(array != -1).any(axis=1)]

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


def is_whole(port: ov.Output) -> bool:
    """Return whether an output holds whole numbers, which need no rounding."""
    node = port.get_node()
    if node.get_type_name() == "Constant":
        return bool(np.all(node.data == np.rint(node.data)))
    if not port.get_element_type().is_real():
        return True
    sources = [made.get_source_output() for made in node.inputs()]
    return node.get_type_name() in KEEPS_WHOLE and all(map(is_whole, sources))


class ChoosingModel:
    """A model and its choices; variants of it return choices, or take those of another run.

    ``owners`` are the choices of all ``ports``, one after another.
    """

    def __init__(self, model: ov.Model) -> None:
        self.model = model
        found = map(Choice.find, model.get_ordered_ops())
        self.choices = [choice for choice in found if choice is not None]
        self.owners = [choice for choice in self.choices for _ in choice.ports]
        self.n_outputs = len(model.outputs)

    @cached_property
    def tapped(self) -> ov.Model:
        """The model with the choices as additional outputs."""
        model, nodes = self.copy()
        ports = [nodes[one.name].output(port) for one in self.choices for port in one.ports]
        add_outputs(model, ports)
        return model

    @cached_property
    def forced(self) -> ov.Model:
        """The model with choices as additional inputs; the tensors that judge them are outputs."""
        from openvino import op

        model, nodes = self.copy()
        read: list[ov.Output] = []
        given: list[ov.Node] = []
        for choice in self.choices:
            node = nodes[choice.name]
            for port in map(node.output, choice.ports):
                given.append(op.Parameter(port.get_element_type(), port.get_partial_shape()))
                given[-1].set_friendly_name(f"{choice.name}/{port.get_index()}/choice")
                for reader in list(port.get_target_inputs()):
                    reader.replace_source_output(given[-1].output(0))
            sources = [port.get_source_output() for port in node.inputs()]
            read += node.outputs() if choice.is_inside else sources
        add_outputs(model, read)
        model.add_parameters(given)
        return model

    def copy(self) -> tuple[ov.Model, dict[str, ov.Node]]:
        model = self.model.clone()
        return model, {node.get_friendly_name(): node for node in model.get_ordered_ops()}

    def split(self, outputs: Outputs, n_inferences: int) -> Iterator[tuple[Outputs, Outputs]]:
        """The outputs of the model and the additional ones, for each inference."""
        size = len(outputs) // n_inferences
        for start in range(0, len(outputs), size):
            each = outputs[start : start + size]
            yield each[: self.n_outputs], each[self.n_outputs :]

    def force(self, samples: Sequence[Sequence[Inputs]], tapped: Outputs) -> list[Sequence[Inputs]]:
        """The inputs of ``forced`` for each inference, with the choices in ``tapped``."""
        made = (
            map(Choice.drop_free, self.owners, chosen)
            for _, chosen in self.split(tapped, sum(map(len, samples)))
        )
        return [[[*inputs, *next(made)] for inputs in steps] for steps in samples]

    def trim(self, outputs: Outputs, expected: Outputs, tapped: Outputs) -> Outputs:
        """Cut a placement's outputs to ``expected`` shapes if ``tapped`` has rows that are free."""
        has_free = any(
            choice.drop_free(array).size < array.size
            for _, chosen in self.split(tapped, len(outputs) // self.n_outputs)
            for choice, array in zip(self.owners, chosen, strict=True)
        )
        if not has_free:
            return outputs
        return [
            array if array.shape == rows.shape else array[tuple(map(slice, rows.shape))]
            for array, rows in zip(outputs, expected, strict=True)
        ]

    def find_errors(
        self, samples: Sequence[Sequence[Inputs]], forced: Outputs, limit: float
    ) -> tuple[Outputs, dict[str, float]]:
        """The outputs to expect, and the error of each choice, from outputs of ``forced``.

        ``samples`` are the inputs of that model, from ``force``.
        """
        expected: Outputs = []
        errors = {str(choice): 0.0 for choice in self.choices}
        inferences = [inputs for steps in samples for inputs in steps]
        made = self.split(forced, len(inferences))
        for inputs, (outputs, read) in zip(inferences, made, strict=True):
            expected += outputs
            values, chosen = iter(read), iter(inputs[len(self.model.inputs) :])
            for choice in self.choices:
                known = {index: next(values) for index in choice.sources}
                given = {port: np.asarray(next(chosen)) for port in choice.ports}
                error = choice.find_error(known, given, limit)
                errors[str(choice)] = max(errors[str(choice)], error)
        return expected, errors

    def list_rules(self) -> list[str]:
        """Describe how outputs behind choices are compared, in a line for each of the first few."""
        by_name = {choice.name: choice for choice in self.choices}
        behind = {
            name_output(port): [by_name[name] for name in found]
            for port in self.model.outputs
            if (found := find_before(port, frozenset(by_name)))
        }
        rules = [
            f"output {name!r} stands behind {join_words(list(map(str, choices)))}: compared for "
            f"the placement's own choice, {join_words(sorted({one.rule for one in choices}))}"
            for name, choices in islice(behind.items(), MAX_RULES)
        ]
        if len(behind) > MAX_RULES:
            rules.append(f"the same for {len(behind) - MAX_RULES} more outputs")
        return rules


def find_before(port: ov.Output, names: frozenset[str]) -> list[str]:
    """The nearest nodes with these names that an output depends on, at most a few of them."""
    found, seen = list[str](), set[str]()
    waiting = [port.get_node()]
    while waiting and len(found) < MAX_NAMED_OPERATORS:
        node = waiting.pop()
        name = node.get_friendly_name()
        if name in seen:
            continue
        seen.add(name)
        if name in names:
            found.append(name)
        else:
            waiting += [one.get_source_output().get_node() for one in node.inputs()]
    return found


def name_output(port: ov.Output) -> str:
    """A tensor name of an output, or the name of the node that makes it."""
    made = port.get_node().input_value(0).get_node()
    return min(port.get_names(), default="") or str(made.get_friendly_name())


def add_outputs(model: ov.Model, ports: Iterable[ov.Output]) -> None:
    """Add outputs to a model, in place, even where a port is an output already."""
    from openvino import op

    results = [op.Result(port) for port in ports]
    for number, result in enumerate(results):
        result.set_friendly_name(f"choices/{number}")
    model.add_results(results)


def is_soft(node: ov.Node) -> bool:
    """Return whether a suppression lowers scores instead of dropping boxes."""
    if node.get_input_size() < 6:
        return False
    sigma = node.input_value(5).get_node()
    return bool(sigma.get_type_name() != "Constant" or sigma.get_data().any())
