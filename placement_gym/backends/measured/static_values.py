"""Values that are known without data: each submodel gets its own.

A constant, or a chain of operators on constants, that two submodels share would tie them
together: HETERO then moves it as data, or over-splits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.errors import EngineError

if TYPE_CHECKING:
    import openvino as ov


def separate_static_values(
    model: ov.Model, operators: frozenset[str], owner: dict[str, int]
) -> None:
    """Give every reader static values of its own submodel, in place.

    Shape arithmetic is replaced by its result, as a pattern that arrives as data makes HETERO's
    requests fail; chains on weights are copied, so that compressed weights stay compressed.

    Args:
        model: A model that is about to be compiled.
        operators: Names of the nodes that are no static values.
        owner: Submodel by node name; new nodes are added.
    """
    Separator(operators, owner).apply(model)


class Separator:
    """Copies and results made so far, by node name and submodel."""

    def __init__(self, operators: frozenset[str], owner: dict[str, int]) -> None:
        self.operators = operators
        self.owner = owner
        self.made: dict[tuple[str, int], ov.Node] = {}

    def apply(self, model: ov.Model) -> None:
        for node in model.get_ordered_ops():
            if self.static(node):
                continue
            for port in node.inputs():
                source = port.get_source_output()
                own = self.own(source, self.owner[node.get_friendly_name()])
                if own != source:
                    port.replace_source_output(own)

    def static(self, node: ov.Node) -> bool:
        kind = node.get_type_name()
        folded = node.get_friendly_name() not in self.operators
        return kind == "Constant" or (folded and kind not in ("Parameter", "Result"))

    def own(self, output: ov.Output, submodel: int) -> ov.Output:
        """The output that a reader in ``submodel`` should use instead."""
        node = output.get_node()
        if not self.static(node):
            return output
        if node.get_type_name() != "Constant" and output.get_element_type().is_integral_number():
            return self.result(output, submodel)
        return self.copy(node, submodel).output(output.get_index())

    def copy(self, node: ov.Node, submodel: int) -> ov.Node:
        key = (node.get_friendly_name(), submodel)
        if self.owner[key[0]] == submodel:
            for port in node.inputs():
                port.replace_source_output(self.own(port.get_source_output(), submodel))
            return node
        if key not in self.made:
            inputs = [self.own(port.get_source_output(), submodel) for port in node.inputs()]
            self.keep(duplicate(node, inputs), key)
        return self.made[key]

    def result(self, output: ov.Output, submodel: int) -> ov.Output:
        from openvino import op

        name = f"{output.get_node().get_friendly_name()}/{output.get_index()}"
        if (name, submodel) not in self.made:
            self.keep(op.Constant(value(output), shared_memory=False), (name, submodel))
        return self.made[name, submodel].output(0)

    def keep(self, node: ov.Node, key: tuple[str, int]) -> None:
        name, submodel = key
        node.set_friendly_name(f"{name}/submodel{submodel}")
        self.owner[node.get_friendly_name()] = submodel
        self.made[key] = node


def duplicate(node: ov.Node, inputs: list[ov.Output]) -> ov.Node:
    """A node of the same type and attributes on other inputs."""
    from openvino import op
    from openvino.utils.node_factory import NodeFactory

    if node.get_type_name() == "Constant":
        return op.Constant(node.get_tensor_view(), shared_memory=False)
    return NodeFactory().create(node.get_type_name(), inputs, node.get_attributes())


def value(output: ov.Output) -> ov.Tensor:
    """What a static output holds.

    Raises:
        RuntimeError: OpenVINO has no reference implementation of an operator in the chain.
    """
    node = output.get_node()
    if node.get_type_name() == "Constant":
        return node.get_tensor_view()
    if node.get_type_name() == "ShapeOf":
        inputs = [empty(node.input(0).get_source_output())]
    else:
        inputs = [value(port.get_source_output()) for port in node.inputs()]
    outputs = [empty(port) for port in node.outputs()]
    if not node.evaluate(outputs, inputs):
        raise EngineError(f"cannot evaluate {node.get_friendly_name()!r} ({node.get_type_name()})")
    result: ov.Tensor = outputs[output.get_index()]
    return result


def empty(port: ov.Output) -> ov.Tensor:
    import openvino as ov

    return ov.Tensor(port.get_element_type(), port.get_shape())
