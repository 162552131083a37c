"""Self-contained parts of a model, submodels or stages, that are compiled separately.

Each part gets copies of shared constants and rounding: HETERO would move shared constants as data
or split too much, and a part without the rounding computes in real numbers instead of integers.

Requests of HETERO begin with tensors whose dynamic dimensions are zero. A reader refuses them
("Can't set the input tensor") if the submodel before it infers less of its output shapes than the
whole model. So borders between submodels state the shapes that readers expect.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.base import CompileError, IntArray
from placement_gym.graph.operators import OpGraph

if TYPE_CHECKING:
    import openvino as ov

Borders = dict[tuple[str, int], "ov.Output"]
"""Name and output index of a node that another submodel reads -> output."""


def separate_parts(model: ov.Model, graph: OpGraph, parts: IntArray) -> dict[str, int]:
    """Copy constants and other static nodes into each of (n_operators,) parts, in place.

    Shape arithmetic on static shapes is replaced by its result, because HETERO's requests fail if a
    pattern arrives as data. Return node name -> part; a Parameter belongs to the first part that
    reads it.

    Raises:
        CompileError: A node belongs to no part.
    """
    owner = {
        name: part
        for names, part in zip(graph.members, parts.tolist(), strict=True)
        for name in names
    }
    for parameter, readers in zip(model.get_parameters(), graph.inputs, strict=True):
        if readers:
            owner[parameter.get_friendly_name()] = int(parts[list(readers)].min())
    for result in model.get_results():  # a variant of the model may have more
        source = result.input_value(0).get_node().get_friendly_name()
        owner.setdefault(result.get_friendly_name(), owner.get(source, 0))
    unplaced = sorted({node.get_friendly_name() for node in model.get_ops()} - set(owner))
    if unplaced:
        raise CompileError(f"the placement has no device for {unplaced}")
    Separator(model, frozenset(graph.names), owner).apply()
    return owner


class Separator:
    """Rewires readers to copies of static values in their part, which are added to ``owner``."""

    def __init__(self, model: ov.Model, operators: frozenset[str], owner: dict[str, int]) -> None:
        self.model = model
        self.operators = operators
        self.owner = owner
        # The original model and sources of static nodes: these may be rewired, or lose their last
        # reader, before another part copies them.
        self.original = model.clone()
        self.sources = {
            node.get_friendly_name(): [port.get_source_output() for port in node.inputs()]
            for node in model.get_ordered_ops()
            if self.is_static(node)
        }
        self.clones: dict[int, dict[str, ov.Node]] = {}
        self.copies: dict[tuple[str, int], ov.Node] = {}

    def apply(self) -> None:
        for node in self.model.get_ordered_ops():
            if self.is_static(node):
                continue
            for port in node.inputs():
                source = port.get_source_output()
                output = self.own_output(source, self.owner[node.get_friendly_name()])
                if output != source:
                    port.replace_source_output(output)

    def is_static(self, node: ov.Node) -> bool:
        kind = node.get_type_name()
        folded = node.get_friendly_name() not in self.operators
        return kind == "Constant" or (folded and kind not in ("Parameter", "Result"))

    def own_output(self, output: ov.Output, part: int) -> ov.Output:
        """Return the output that a reader in ``part`` uses instead."""
        node = output.get_node()
        if not self.is_static(node):
            return output
        integral = output.get_element_type().is_integral_number()
        if node.get_type_name() != "Constant" and integral and self.is_known(node):
            folded = self.fold(output, part)
            if folded is not None:
                return folded
        return self.copy(node, part).output(output.get_index())

    def is_known(self, node: ov.Node) -> bool:
        """Return whether a value is the same for all data and dynamic sizes."""
        if not self.is_static(node):
            return False
        if node.get_type_name() == "ShapeOf":
            return bool(node.input(0).get_partial_shape().is_static)
        return all(self.is_known(port.get_source_output().get_node()) for port in node.inputs())

    def copy(self, node: ov.Node, part: int) -> ov.Node:
        """Return the node itself in its own part, else a clone of it."""
        key = (node.get_friendly_name(), part)
        if key in self.copies:
            return self.copies[key]
        own = node
        if self.owner[key[0]] != part:
            own = self.clone(node.get_friendly_name(), part)
            self.add(own, key)
        for source, copied in zip(self.sources[key[0]], own.inputs(), strict=True):
            copied.replace_source_output(self.own_output(source, part))
        return own

    def clone(self, name: str, part: int) -> ov.Node:
        """Clone a node and the static nodes that it reads; constants share their values."""
        # Only OpenVINO's clone of a model keeps operator sets, attributes and bodies. Clones of the
        # whole model for each part would take quadratic time and memory.
        import openvino as ov
        from openvino import op

        own = self.clones.setdefault(part, {})
        if name not in own:
            chain, parameters = {name}, []
            waiting = [self.alone[name]]
            while waiting:
                for port in waiting.pop().inputs():
                    source = port.get_source_output().get_node()
                    if source.get_type_name() == "Parameter":
                        parameters.append(source)
                    elif source.get_friendly_name() not in chain:
                        chain.add(source.get_friendly_name())
                        waiting.append(source)
            results = [op.Result(output) for output in self.alone[name].outputs()]
            nodes = ov.Model(results, parameters, name).clone().get_ordered_ops()
            own |= {node.get_friendly_name(): node for node in nodes}
        return own[name]

    @cached_property
    def alone(self) -> dict[str, ov.Node]:
        """Static nodes of the original model, with Parameters for the data that they read."""
        from openvino import op

        nodes = {node.get_friendly_name(): node for node in self.original.get_ordered_ops()}
        static = {name: node for name, node in nodes.items() if self.is_static(node)}
        for node in static.values():
            for port in node.inputs():
                source = port.get_source_output()
                if not self.is_static(source.get_node()):
                    data = op.Parameter(source.get_element_type(), source.get_partial_shape())
                    port.replace_source_output(data.output(0))
        return static

    def fold(self, output: ov.Output, part: int) -> ov.Output | None:
        """Make a constant of an output's value; None if OpenVINO cannot compute it."""
        from openvino import op

        name = f"{output.get_node().get_friendly_name()}/{output.get_index()}"
        if (name, part) not in self.copies:
            value = evaluate_static(output)
            if value is None:
                return None
            self.add(op.Constant(value, shared_memory=False), (name, part))
        return self.copies[name, part].output(0)

    def add(self, node: ov.Node, key: tuple[str, int]) -> None:
        name, part = key
        node.set_friendly_name(f"{name}/submodel{part}")
        self.owner[node.get_friendly_name()] = part
        self.copies[key] = node


def evaluate_static(output: ov.Output) -> ov.Tensor | None:
    """Compute a static output; None if OpenVINO has no reference implementation."""
    node = output.get_node()
    if node.get_type_name() == "Constant":
        return node.get_tensor_view()
    if node.get_type_name() == "ShapeOf":
        inputs = [empty_tensor(node.input(0).get_source_output())]
    else:
        inputs = [evaluate_static(port.get_source_output()) for port in node.inputs()]
    if any(value is None for value in inputs):
        return None
    outputs = [empty_tensor(port) for port in node.outputs()]
    return outputs[output.get_index()] if node.evaluate(outputs, inputs) else None


def empty_tensor(port: ov.Output) -> ov.Tensor:
    import openvino as ov

    return ov.Tensor(port.get_element_type(), port.get_shape())


def state_border_shapes(model: ov.Model, owner: dict[str, int]) -> None:
    """State the shapes of tensors between submodels that submodels do not infer, in place.

    A ``Reshape`` states known sizes; other dimensions may have any size, also zero. New nodes are
    added to ``owner``, the submodel of each node by name.
    """
    borders: set[str] = set()
    while refused := find_refused(model, owner, borders):
        for (name, index), output in refused.items():
            add_border(output, f"{name}/{index}/border", owner)
            borders.add(f"{name}/{index}/border")
        model.validate_nodes_and_infer_types()


def find_refused(model: ov.Model, owner: dict[str, int], borders: set[str]) -> Borders:
    """Find outputs that readers in other submodels refuse when a request begins."""
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
        return {}  # compilation will refuse the submodel
    return {
        key: output
        for key, output in refused.items()
        if is_refused(output.get_partial_shape(), inferred[key].get_partial_shape())
    }


def infer_alone(model: ov.Model, owner: dict[str, int]) -> Borders:
    """Infer the outputs of submodels from the shapes of their inputs alone."""
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
    """Return whether a reader refuses a tensor that is zero in dimensions of unknown size."""
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
        hidden = ops.bitwise_or(same, same)  # unknown before it runs, so bounds are dropped
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
