"""Shapes of a model's inputs: bound, or only measured; and the forms of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from placement_gym.base import UserError, last_line, unknown_name

if TYPE_CHECKING:
    import openvino as ov

Shapes: TypeAlias = Mapping[str, Sequence[int | str]]
"""Input name -> sizes; -1 or ``"?"`` leaves a dimension dynamic."""
DataShapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Input with dynamic dimensions -> its measured sizes."""
FoundShapes: TypeAlias = Mapping[str, Sequence[Sequence[int]]]
"""Operator whose sizes depend on data -> shapes of its outputs in an inference."""
InputsArgument: TypeAlias = "str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]"
"""An ``.npz`` of named arrays, a folder of ``.npy`` or of ``.npz`` (a sample each), a mapping of
names to arrays, or a list of such mappings, the samples. An array with one more dimension than its
input has samples along the first axis. ``{"data_shapes": sizes}`` only states sizes."""
Sample: TypeAlias = Mapping[int, NDArray[Any]]
"""Index of an input -> its values."""
Sizes: TypeAlias = Mapping[str, Sequence[int]]
"""Input name -> its sizes."""
MAX_SHOWN = 4
"""Maximum number of inputs that a message names."""


class UnsupportedModelError(UserError):
    """The model cannot be placed; the message names the necessary change."""


class SizesError(UnsupportedModelError):
    """Sizes of inputs are missing or out of place; ``remedy`` is for users of a placement."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def bind_shapes(model: ov.Model, shapes: Shapes) -> None:
    """Set the shapes of inputs, in place, or raise ``UserError``."""
    import openvino as ov

    sizes_of = match_inputs(model, shapes, "shapes")
    try:
        model.reshape({index: ov.PartialShape(to_text(sizes)) for index, sizes in sizes_of.items()})
    except RuntimeError as error:
        raise UserError(
            f"the model cannot have the shapes {dict(shapes)}: {last_line(error)}"
        ) from error


def match_inputs(model: ov.Model, shapes: Shapes, argument: str) -> dict[int, Sequence[int | str]]:
    """Return index of an input -> its sizes; a name may be a pattern, as in ``"image_*"``."""
    if not isinstance(shapes, Mapping):
        raise UserError(
            f"{argument} maps names to sizes, as in {{'input_ids': [1, 64]}}, not {shapes!r}"
        )
    index = index_names([input_names(port) for port in model.inputs])
    sizes_of: dict[int, Sequence[int | str]] = {}
    # An exact name takes precedence over a pattern.
    for key in sorted(shapes, key=lambda key: key in index):
        names = [key] if key in index else [name for name in index if fnmatchcase(name, key)]
        if not names:
            raise unknown_name(f"an input of {argument}", key, index)
        sizes_of |= {index[name]: shapes[key] for name in names}
    return sizes_of


def to_text(sizes: Sequence[int | str]) -> str:
    """Format sizes as in ``"[1,?]"``; raise ``UserError`` unless they are a list."""
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise UserError(f"a shape is a list of sizes, as in [1, 64], not {sizes!r}")
    return f"[{','.join(map(str, sizes))}]"


def find_data_shapes(model: ov.Model, given: Shapes | None = None) -> DataShapes:
    """Find the measured sizes of inputs with dynamic dimensions: given ones, or upper bounds.

    Raises:
        UserError: A given input is unknown or cannot have the sizes.
        UnsupportedModelError: A dimension has no given size and no upper bound.
    """
    stated_sizes = read_sizes(model, given or {})
    data_shapes: dict[str, tuple[int, ...]] = {}
    for index, port in enumerate(model.inputs):
        shape = port.get_partial_shape()
        if shape.is_static:
            continue
        sizes = stated_sizes.get(index) or read_bounds(shape)
        if sizes is None:
            name = input_names(port)[0]
            raise explain_dynamic(f"{name!r} has the shape {shape}", model)
        data_shapes[input_names(port)[0]] = sizes
    return data_shapes


def read_sizes(model: ov.Model, given: Shapes) -> dict[int, tuple[int, ...]]:
    """Check given sizes: index of an input -> its sizes."""
    import openvino as ov

    sizes_of: dict[int, tuple[int, ...]] = {}
    for index, sizes in match_inputs(model, given, "sizes").items():
        name = input_names(model.inputs[index])[0]
        text = to_text(sizes)
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            raise UserError(
                f"{name!r} cannot be measured with {text}: all sizes have to be above 0"
            )
        shape = model.inputs[index].get_partial_shape()
        if shape.rank.is_dynamic:
            raise UserError(
                f"{name!r} has an unknown rank: bind it, as in "
                f'shapes={{{name!r}: {list(sizes)}}} or --shape "{name}{text}"'
            )
        if not shape.compatible(ov.PartialShape(text)):
            raise UserError(f"{name!r} has the shape {shape}: data of shape {text} do not fit")
        sizes_of[index] = tuple(map(int, sizes))
    return sizes_of


def read_bounds(shape: ov.PartialShape) -> tuple[int, ...] | None:
    """Return the upper bounds of a shape; None if a dimension has none."""
    if shape.rank.is_dynamic:
        return None
    sizes = tuple(size.get_max_length() for size in shape)
    return None if -1 in sizes else sizes


def raise_to_bounds(model: ov.Model, sizes: DataShapes) -> DataShapes:
    """Raise the sizes of inputs to their upper bounds, if any."""
    shapes = {input_names(port)[0]: port.get_partial_shape() for port in model.inputs}
    return {
        name: tuple(
            max(size, limit.get_max_length())
            for size, limit in zip(given, shapes[name], strict=True)
        )
        for name, given in sizes.items()
    }


def drop_lower_bounds(model: ov.Model) -> None:
    """Remove the lower bounds of dynamic input dimensions, in place.

    Submodels with a lower bound refuse the first tensors of HETERO, of size zero.
    """
    import openvino as ov

    for parameter in model.get_parameters():
        shape = parameter.get_partial_shape()
        if any(dimension.is_dynamic and dimension.get_min_length() for dimension in shape):
            sizes = [
                ov.Dimension(0, dimension.get_max_length()) if dimension.is_dynamic else dimension
                for dimension in shape
            ]
            parameter.set_partial_shape(ov.PartialShape(sizes))
            model.validate_nodes_and_infer_types()


def shape_nodes(model: ov.Model, sizes: DataShapes) -> dict[str, ov.Node]:
    """Return nodes by name, in topological order, with their shapes for these sizes of inputs.

    Dimensions that stay dynamic depend on data. Sizes that do not fit raise ``UserError``.
    """
    bound = bind_sizes(model, sizes)
    return {node.get_friendly_name(): node for node in bound.get_ordered_ops()}


def bind_sizes(model: ov.Model, sizes: DataShapes) -> ov.Model:
    """Copy a model with bound sizes of its inputs, or raise ``UserError``."""
    import openvino as ov

    clone = model.clone()
    for parameter, port in zip(clone.get_parameters(), clone.inputs, strict=True):
        shape: Sequence[int] | None = sizes.get(input_names(port)[0])
        if shape is not None:
            parameter.set_partial_shape(ov.PartialShape(list(shape)))
    try:
        clone.validate_nodes_and_infer_types()
    except RuntimeError as error:
        raise UserError(
            f"the model does not accept inputs of {dict(sizes)}: {last_line(error)} State the "
            "sizes of all its inputs, and equal bounds for equal dimensions"
        ) from error
    return clone


def state_found_shapes(nodes: Mapping[str, ov.Node], found: FoundShapes) -> None:
    """Set dimensions that stay dynamic in ``shape_nodes`` to those of an inference, in place."""
    import openvino as ov

    for name, shapes in found.items():
        for port, shape in zip(nodes[name].outputs(), shapes, strict=False):
            declared = port.get_partial_shape()
            sizes = list(shape)
            if declared.rank.is_static:
                pairs = zip(declared, shape, strict=True)
                sizes = [size if limit.is_dynamic else limit.get_length() for limit, size in pairs]
            port_type = port.get_element_type()
            nodes[name].set_output_type(port.get_index(), port_type, ov.PartialShape(sizes))


def name_added_nodes(nodes: Iterable[ov.Node]) -> None:
    """Name nodes by their type and index, in place, as OpenVINO's names of added nodes vary."""
    for index, node in enumerate(nodes):
        node.set_friendly_name(f"{node.get_type_name()}/added{index}")


def input_names(port: ov.Output) -> list[str]:
    """Return the names of an input for ``shapes``; messages use the first."""
    return [*sorted(port.get_names()), port.get_node().get_friendly_name()]


def index_names(names: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return name -> index of the input; names of tensors go before those of nodes, the last."""
    index = {own[-1]: number for number, own in enumerate(names)}
    return index | {name: number for number, own in enumerate(names) for name in own[:-1]}


def list_dynamic(nodes: Iterable[ov.Node]) -> list[str]:
    """List the names of nodes with an output of dynamic shape."""
    return [
        node.get_friendly_name()
        for node in nodes
        if any(output.get_partial_shape().is_dynamic for output in node.outputs())
    ]


def find_pattern(inputs: Mapping[str, ov.PartialShape], name: str) -> str:
    """Find a pattern of the inputs with the same shape, else return the name."""
    names = sorted(other for other, shape in inputs.items() if shape == inputs[name])
    ends = zip(names[0], names[-1], strict=False)
    pattern = "".join(one for one, other in takewhile(lambda pair: pair[0] == pair[1], ends)) + "*"
    others = any(fnmatchcase(other, pattern) for other in inputs.keys() - set(names))
    return name if others or len(names) == 1 or pattern == "*" else pattern


def describe_inputs(inputs: Mapping[str, ov.PartialShape]) -> str:
    shown = ", ".join(f"{name}{shape}" for name, shape in list(inputs.items())[:MAX_SHOWN])
    more = len(inputs) - MAX_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def explain_dynamic(problem: str, model: ov.Model) -> UnsupportedModelError:
    """Make the error for an input of unknown size."""
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
