"""Shapes at the borders between submodels, where dimensions of a model are dynamic.

A request of HETERO begins with tensors whose dynamic dimensions are zero. A submodel may infer less
of its outputs than the reader infers in the whole model: the pattern of a ``Reshape`` arrives as
data, or two sizes are equal outside of it. The reader then refuses the first tensor ("Can't set the
input tensor").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import openvino as ov

Borders = dict[tuple[str, int], "ov.Output"]
"""Name and output of a node that another submodel reads -> that output."""


def state_border_shapes(model: ov.Model, owner: dict[str, int]) -> None:
    """Set the shapes of tensors between submodels to those that their readers expect, in place.

    A ``Reshape`` states the sizes that are known, where the submodel alone does not infer them. A
    dimension that cannot be zero becomes one of any size. New nodes are added to ``owner``, the
    submodel of each node by name.
    """
    borders: set[str] = set()
    while refused := find_refused(model, owner, borders):
        for (name, index), output in refused.items():
            add_border(output, f"{name}/{index}/border", owner)
            borders.add(f"{name}/{index}/border")
        model.validate_nodes_and_infer_types()


def find_refused(model: ov.Model, owner: dict[str, int], borders: set[str]) -> Borders:
    """Outputs that a reader in another submodel would refuse as a request begins."""
    refused: Borders = {}
    for node in model.get_ordered_ops():
        for port in node.inputs():
            source = port.get_source_output()
            name = source.get_node().get_friendly_name()
            if owner[name] != owner[node.get_friendly_name()] and name not in borders:
                refused[name, source.get_index()] = source
    if all(output.get_partial_shape().is_static for output in refused.values()):
        return {}
    try:
        inferred = infer_alone(model, owner)
    except RuntimeError:
        return {}  # a submodel that OpenVINO cannot infer is refused when it is compiled
    return {
        key: output
        for key, output in refused.items()
        if is_refused(output.get_partial_shape(), inferred[key].get_partial_shape())
    }


def infer_alone(model: ov.Model, owner: dict[str, int]) -> Borders:
    """Infer the outputs of submodels, with the shapes that each derives from its own inputs."""
    import openvino as ov
    from openvino import op

    clone = model.clone()
    shapes: Borders = {}
    inputs: dict[tuple[str, int, int], ov.Node] = {}
    for node in clone.get_ordered_ops():
        part = owner[node.get_friendly_name()]
        for port in node.inputs():
            source = port.get_source_output()
            name, index = source.get_node().get_friendly_name(), source.get_index()
            if owner[name] == part:
                continue
            shapes[name, index] = source
            if (name, index, part) not in inputs:
                parameter = op.Parameter(source.get_element_type(), source.get_partial_shape())
                inputs[name, index, part] = parameter
            port.replace_source_output(inputs[name, index, part].output(0))
    results = [*clone.get_results(), *(op.Result(output) for output in shapes.values())]
    parameters = [*clone.get_parameters(), *inputs.values()]
    ov.Model(results, clone.get_sinks(), parameters, "parts").validate_nodes_and_infer_types()
    return shapes


def is_refused(read: ov.PartialShape, inferred: ov.PartialShape) -> bool:
    """Return whether a reader refuses a tensor that is zero where its maker has no known size."""
    if read.rank.is_dynamic:
        return False
    if inferred.rank.is_dynamic:
        return True
    return any(
        size.is_dynamic and expected.get_min_length() > 0
        for expected, size in zip(read, inferred, strict=True)
    )


def add_border(output: ov.Output, name: str, owner: dict[str, int]) -> None:
    """Put a ``Reshape`` between an output and its readers in other submodels."""
    from openvino import opset13 as ops

    giver = owner[output.get_node().get_friendly_name()]
    readers = [
        port
        for port in output.get_target_inputs()
        if owner[port.get_node().get_friendly_name()] != giver
    ]
    shape = output.get_partial_shape()
    new, border = [], output
    if any(size.is_dynamic and size.get_min_length() > 0 for size in shape):
        same = ops.constant(np.zeros(len(shape), dtype=np.int64))
        hidden = ops.bitwise_or(same, same)  # has no value before it runs, so bounds are forgotten
        border = ops.reshape(border, hidden, special_zero=True)
        new += [same, hidden, border]
    lengths = [size.get_length() if size.is_static else 0 for size in shape]
    pattern = ops.constant(np.array(lengths, dtype=np.int64))
    border = ops.reshape(border, pattern, special_zero=True)
    for number, node in enumerate([*new, pattern, border]):
        node.set_friendly_name(name if node is border else f"{name}/{number}")
        owner[node.get_friendly_name()] = giver
    for port in readers:
        port.replace_source_output(border.output(0))
