"""Bind dynamic dimensions of a model's inputs before it is placed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

from placement_gym.base import UserError, last_line, unknown_name

if TYPE_CHECKING:
    import openvino as ov

Shapes: TypeAlias = Mapping[str, Sequence[int | str]]
"""Input name -> sizes; -1 or ``"?"`` leaves a dimension dynamic."""
MAX_SHOWN = 4
"""Largest number of inputs that a message names."""


class UnsupportedModelError(UserError):
    """The model cannot be placed; the message names the necessary change."""


class SizesError(UnsupportedModelError):
    """Sizes of inputs are missing, or out of place.

    Args:
        message: Error with a remedy.
        remedy: Error for the user of a placement, which states the measured sizes.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def bind_shapes(model: ov.Model, shapes: Shapes) -> None:
    """Set the shapes of inputs, in place.

    Raises:
        UserError: The model has no such input, or not with such a shape.
    """
    import openvino as ov

    sizes_of = match_inputs(model, shapes, "shapes")
    try:
        model.reshape({index: ov.PartialShape(to_text(sizes)) for index, sizes in sizes_of.items()})
    except RuntimeError as error:
        raise UserError(
            f"the model cannot have the shapes {dict(shapes)}: {last_line(error)}"
        ) from error


def match_inputs(model: ov.Model, shapes: Shapes, argument: str) -> dict[int, Sequence[int | str]]:
    """Return index of an input -> its sizes; a name may be a pattern, as in ``"image_*"``.

    Raises:
        UserError: The model has no such input; the message calls the shapes ``argument``.
    """
    if not isinstance(shapes, Mapping):
        raise UserError(
            f"{argument} maps names to sizes, as in {{'input_ids': [1, 64]}}, not {shapes!r}"
        )
    index = {name: number for number, port in enumerate(model.inputs) for name in input_names(port)}
    sizes_of: dict[int, Sequence[int | str]] = {}
    # An exact name takes precedence over a pattern.
    for key in sorted(shapes, key=lambda key: key in index):
        names = [key] if key in index else [name for name in index if fnmatchcase(name, key)]
        if not names:
            raise unknown_name(f"an input of {argument}", key, index)
        sizes_of |= {index[name]: shapes[key] for name in names}
    return sizes_of


def to_text(sizes: Sequence[int | str]) -> str:
    """``"[1,?]"`` for ``[1, "?"]``.

    Raises:
        UserError: They are not a list of sizes.
    """
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise UserError(f"a shape is a list of sizes, as in [1, 64], not {sizes!r}")
    return f"[{','.join(map(str, sizes))}]"


def input_names(port: ov.Output) -> list[str]:
    """Return the names of an input that ``shapes`` may use."""
    return [*sorted(port.get_names()), port.get_node().get_friendly_name()]


def list_dynamic(nodes: Iterable[ov.Node]) -> list[str]:
    """List the names of nodes with an output of dynamic shape."""
    return [
        node.get_friendly_name()
        for node in nodes
        if any(output.get_partial_shape().is_dynamic for output in node.outputs())
    ]


def find_pattern(inputs: Mapping[str, ov.PartialShape], name: str) -> str:
    """Find a pattern of all inputs with the same shape, by their beginning; else the name."""
    names = sorted(other for other, shape in inputs.items() if shape == inputs[name])
    ends = zip(names[0], names[-1], strict=False)
    pattern = "".join(one for one, other in takewhile(lambda pair: pair[0] == pair[1], ends)) + "*"
    others = any(fnmatchcase(other, pattern) for other in inputs.keys() - set(names))
    return name if others or len(names) == 1 or pattern == "*" else pattern


def describe_inputs(inputs: Mapping[str, ov.PartialShape]) -> str:
    """Describe the shapes of the first few inputs, and the number of others."""
    shown = ", ".join(f"{name}{shape}" for name, shape in list(inputs.items())[:MAX_SHOWN])
    more = len(inputs) - MAX_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def explain_dynamic(problem: str, model: ov.Model) -> UnsupportedModelError:
    """Make the error for an input of dynamic shape, which names the inputs to bind."""
    inputs = {input_names(port)[0]: port.get_partial_shape() for port in model.inputs}
    shape_of = describe_inputs(inputs)
    for name, shape in inputs.items():
        if shape.is_dynamic and shape.rank.is_static:
            name = find_pattern(inputs, name)
            sizes = [size.get_length() if size.is_static else 1 for size in shape]
            example, text = {name: sizes}, f'"{name}[{",".join(map(str, sizes))}]"'
            return SizesError(
                f"{problem}: bind the dimensions, as in --shape {text}, shapes={example} or "
                f"model.reshape({example}), or give your own inputs, as in --inputs inputs.npz, "
                f"inputs='inputs.npz'; the model has {shape_of}",
                f"{problem}, but the placement was made with bound dimensions: bind the same, as "
                f"in --shape {text} (shapes={example}); the model has {shape_of}",
            )
    unranked = next(name for name, shape in inputs.items() if shape.rank.is_dynamic)
    example, text = {unranked: [1, 3, 224, 224]}, f'"{unranked}[1,3,224,224]"'
    return UnsupportedModelError(
        f"{problem}; the model has {shape_of}. State all sizes of an input of unknown rank as in "
        f"your data, for example shapes={example} or --shape {text}"
    )
