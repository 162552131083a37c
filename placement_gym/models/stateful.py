"""Models with state between inferences, and their batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.models.named_inputs import batch_axis
from placement_gym.models.shapes import bind_shapes, input_names

if TYPE_CHECKING:
    import openvino as ov


def is_stateful(model: ov.Model) -> bool:
    return bool(model.get_variables())


def bind_batch(model: ov.Model) -> None:
    """Bind each dynamic batch to that of another input, or to one, in place.

    With a dynamic batch, HETERO fails on many splits of models with state.
    """
    batch = find_batch(model)
    shapes: dict[str, list[int | str]] = {}
    for port in model.inputs:
        axis, sizes = batch_axis(port), [str(size) for size in port.get_partial_shape()]
        if axis is not None and port.get_partial_shape()[axis].is_dynamic:
            shapes[input_names(port)[0]] = [*sizes[:axis], batch, *sizes[axis + 1 :]]
    if shapes:
        bind_shapes(model, shapes)
    bind_states(model)


def bind_states(model: ov.Model) -> None:
    """Bind states whose initial and assigned shapes are equal and static, in place.

    OpenVINO's CPU plugin reads wrong values if only the state's shape is dynamic.
    """
    import openvino as ov

    shapes: dict[str, set[str]] = {}
    for node in model.get_ops():
        if node.get_type_name() in ("ReadValue", "Assign"):
            found = shapes.setdefault(node.get_attributes()["variable_id"], set())
            found.update(str(port.get_partial_shape()) for port in node.inputs())
    for variable in model.get_variables():
        info = variable.info
        shape, *others = map(ov.PartialShape, shapes[info.variable_id])
        if shape.is_static and not others:
            info.data_shape = shape
            variable.update(info)
    model.validate_nodes_and_infer_types()


def find_batch(model: ov.Model) -> int:
    """Return the batch of the first input that has a static one, else one."""
    axes = ((port.get_partial_shape(), batch_axis(port)) for port in model.inputs)
    sizes = (shape[axis] for shape, axis in axes if axis is not None)
    return next((size.get_length() for size in sizes if size.is_static), 1)
