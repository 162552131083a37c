"""Constants that several operators read, such as tied weights, and models with separate copies.

The CPU plugin of OpenVINO 2026.4 computes wrong results if two products read the same square
constant, one of them transposed. A file stores equal copies once, so the transposing product gets
the transposed numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from placement_gym.models.tensors import copy_tensor

if TYPE_CHECKING:
    import openvino as ov


def shared_constants(model: ov.Model) -> list[str]:
    """List constants that several inputs read, also after a ``Convert``; the largest first."""
    shared = [node for node in model.get_ordered_ops() if is_shared(node)]
    shared.sort(key=lambda node: -int(np.prod(node.get_output_shape(0))))
    return [node.get_friendly_name() for node in shared]


def separate_constants(model: ov.Model) -> ov.Model:
    """Copy a model with a separate constant for each reader."""
    clone = model.clone()
    for node in clone.get_ordered_ops():
        if not is_shared(node):
            continue
        for number, port in enumerate(list(node.output(0).get_target_inputs())):
            transposed = is_transposing(port)
            if number == 0 and not transposed:
                continue
            constant = copy_constant(node, f"{node.get_friendly_name()}/copy{number}", transposed)
            if transposed:
                port.get_node().set_attribute("transpose_b", False)
            port.replace_source_output(constant.output(0))
    clone.validate_nodes_and_infer_types()
    return clone


def is_shared(node: ov.Node) -> bool:
    """Return whether several inputs read a constant, directly or converted."""
    return is_constant(node) and len(node.output(0).get_target_inputs()) > 1


def is_constant(node: ov.Node) -> bool:
    if node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    return bool(node.get_type_name() == "Constant")


def is_transposing(port: ov.Input) -> bool:
    """Return whether a product reads a matrix of whole bytes transposed."""
    node, matrix = port.get_node(), port.get_source_output()
    if node.get_type_name() != "MatMul" or port.get_index() != 1:
        return False
    is_matrix = len(matrix.get_shape()) == 2 and stored(matrix.get_node()).bitwidth >= 8
    return is_matrix and bool(node.get_attributes()["transpose_b"])


def stored(node: ov.Node) -> ov.Type:
    """Return the element type of a constant, before a ``Convert``."""
    source = node.input_value(0) if node.get_type_name() == "Convert" else node.output(0)
    return source.get_element_type()


def copy_constant(node: ov.Node, name: str, transposed: bool) -> ov.Node:
    """Copy a constant to new memory, with its ``Convert``."""
    import openvino as ov
    from openvino import op
    from openvino import opset13 as ops

    if node.get_type_name() == "Convert":
        inner = copy_constant(node.input_value(0).get_node(), f"{name}/stored", transposed)
        result = ops.convert(inner, node.get_output_element_type(0).get_type_name())
    elif transposed:
        bits = np.ascontiguousarray(node.tensor_view.data.T)
        result = op.Constant(copy_tensor(ov.Tensor(bits, bits.shape, node.get_element_type())))
    else:
        result = op.Constant(copy_tensor(node.tensor_view))
    result.set_friendly_name(name)
    return result
