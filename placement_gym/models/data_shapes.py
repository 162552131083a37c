"""Sizes with which a model is measured, if its inputs or its data decide them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from placement_gym.base import UserError, last_line
from placement_gym.models.shapes import (
    Shapes,
    explain_dynamic,
    input_names,
    match_inputs,
    to_text,
)

if TYPE_CHECKING:
    import openvino as ov

DataShapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Input with dynamic dimensions -> its measured sizes."""
FoundShapes: TypeAlias = Mapping[str, Sequence[Sequence[int]]]
"""Operator whose sizes the data decide -> the shapes of its outputs in an inference."""


def find_data_shapes(model: ov.Model, given: Shapes | None = None) -> DataShapes:
    """Find the measured sizes of inputs with dynamic dimensions; empty if there are none.

    ``given`` states them; otherwise a dimension has its upper bound.

    Raises:
        UserError: The model has no such input, or not with such sizes.
        UnsupportedModelError: A dimension has neither a size nor an upper bound.
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
    """Read given sizes: index of an input -> its sizes.

    Raises:
        UserError: The model has no such input, or not with such sizes.
    """
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
    """Return the largest sizes of a shape; None if a dimension has no bound."""
    if shape.rank.is_dynamic:
        return None
    sizes = tuple(size.get_max_length() for size in shape)
    return None if -1 in sizes else sizes


def raise_to_bounds(model: ov.Model, sizes: DataShapes) -> DataShapes:
    """Raise the sizes of inputs to their upper bounds, if they have any."""
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

    Requests of HETERO begin with tensors whose dynamic dimensions are zero; submodels with a lower
    bound refuse them.
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
    """Return nodes by name, in topological order, with their shapes at these input sizes.

    Dimensions that stay dynamic depend on the data.

    Raises:
        UserError: The model does not take the sizes.
    """
    bound = bind_sizes(model, sizes)
    return {node.get_friendly_name(): node for node in bound.get_ordered_ops()}


def bind_sizes(model: ov.Model, sizes: DataShapes) -> ov.Model:
    """Copy a model and bind the sizes of its inputs.

    Raises:
        UserError: The model does not accept them.
    """
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
    """Set dimensions that stay dynamic in ``shape_nodes`` to those of an inference, in place.

    They are not raised to OpenVINO's upper bounds, which may be far larger than any data need.
    """
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
