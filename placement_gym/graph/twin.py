"""The static twin of a model with state: its nodes with their shapes at one step of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.base.errors import UserError
from placement_gym.models.scenario import Step, input_shape

if TYPE_CHECKING:
    import openvino as ov


def static_twin(model: ov.Model, step: Step) -> dict[str, ov.Node]:
    """Nodes of static shapes by the friendly name of the model's nodes.

    In the twin a Parameter stands for each ``ReadValue`` and a Result for each ``Assign``, so that
    the state has a length.

    Raises:
        UserError: A dimension stays dynamic at the scenario's lengths.
    """
    import openvino as ov
    from openvino import op

    clone = model.clone()
    parameters, results = list(clone.get_parameters()), list(clone.get_results())
    batch = input_shape(clone.inputs[0], step)[0]
    for parameter, port in zip(parameters, clone.inputs, strict=True):
        parameter.set_partial_shape(ov.PartialShape(list(input_shape(port, step))))
    for node in clone.get_ordered_ops():
        # Shape inference stops at a state, whose length is unknown: a Parameter states it.
        if node.get_type_name() == "ReadValue":
            results += [op.Result(port.get_source_output()) for port in node.inputs()]
            past = op.Parameter(
                node.get_output_element_type(0), ov.Shape(state_shape(node, step, batch))
            )
            # Callers look nodes up by the names of the model.
            past.set_friendly_name(node.get_friendly_name())
            node.output(0).replace(past.output(0))
            parameters.append(past)
        elif node.get_type_name() == "Assign":
            whole = op.Result(node.input(0).get_source_output())
            whole.set_friendly_name(node.get_friendly_name())
            results.append(whole)
    twin = ov.Model(results, parameters, model.get_friendly_name())
    try:
        twin.validate_nodes_and_infer_types()
    except RuntimeError as error:
        raise UserError(
            f"the model does not take {step.new} tokens after {step.past}: leave the number of "
            f"tokens of all its inputs dynamic; OpenVINO: {str(error).strip().splitlines()[-1]}"
        ) from error
    # A dynamic size would become a wrong cost without notice.
    nodes = {node.get_friendly_name(): node for node in twin.get_ordered_ops()}
    for node in nodes.values():
        if any(output.get_partial_shape().is_dynamic for output in node.outputs()):
            raise UserError(
                f"{node.get_friendly_name()!r} has a dynamic shape even with {step.new} new "
                f"tokens after {step.past}: bind more of the inputs' dimensions by "
                "shapes={name: [...]} (--shape 'name[...]')"
            )
    return nodes


def state_shape(node: ov.Node, step: Step, batch: int) -> list[int]:
    """The shape of a state before a step: the first dimension is the batch, others count tokens."""
    return [
        size.get_length() if size.is_static else (step.past if axis else batch)
        for axis, size in enumerate(node.get_output_partial_shape(0))
    ]
