"""A model cut into the models of its stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino as ov

WHOLE_MODEL = -1
"""Index that represents the model itself, where a stage reads one of its inputs."""
Port = tuple[int, int]
"""A stage, or ``WHOLE_MODEL``, and the index of one of its outputs, or of the model's inputs."""


@dataclass
class StageModel:
    """A stage of a model under construction.

    Attributes:
        sources: (n_inputs,) where each input comes from: other stages, or the model's inputs.
        inputs: Name and index of an output that the stage reads of others -> its own input.
        outputs: The same of an output that others read -> index of its own output.
        results: Its outputs.
        sinks: Its operators that write state.
    """

    sources: list[Port] = field(default_factory=list)
    inputs: dict[tuple[str, int], ov.Node] = field(default_factory=dict)
    outputs: dict[tuple[str, int], int] = field(default_factory=dict)
    results: list[ov.Node] = field(default_factory=list)
    sinks: list[ov.Node] = field(default_factory=list)

    def build(self, name: str) -> ov.Model:
        import openvino as ov

        return ov.Model(self.results, self.sinks, [*self.inputs.values()], name)


class Cutter:
    """Replaces what a stage reads of others by its own inputs.

    Args:
        model: A model whose static values belong to one stage each; it cannot be used any more.
        owner: Node name -> stage; producers have lower ones than their readers.
    """

    def __init__(self, model: ov.Model, owner: Mapping[str, int]) -> None:
        self.model = model
        self.owner = owner
        self.stages = [StageModel() for _ in range(max(owner.values()) + 1)]
        self.parameters = {
            node.get_friendly_name(): index for index, node in enumerate(model.get_parameters())
        }

    def cut(self) -> tuple[list[StageModel], list[Port]]:
        """The stages; and (n_outputs,) the stage that has each output of the model, and where."""
        for node in self.model.get_ordered_ops():
            for port in node.inputs():
                self.rewire(port, self.owner[node.get_friendly_name()])
        outputs = [self.add_result(result) for result in self.model.get_results()]
        for sink in self.model.get_sinks():
            self.stages[self.owner[sink.get_friendly_name()]].sinks.append(sink)
        return self.stages, outputs

    def rewire(self, port: ov.Input, stage: int) -> None:
        """Connect a port to an input of its stage if its source is in another stage."""
        source = port.get_source_output()
        name = source.get_node().get_friendly_name()
        if name in self.parameters:
            origin = WHOLE_MODEL, self.parameters[name]
            port.replace_source_output(self.add_input(stage, source, origin))
        elif self.owner[name] != stage:
            giver = self.owner[name]
            origin = giver, self.add_output(giver, source)
            port.replace_source_output(self.add_input(stage, source, origin))

    def add_input(self, stage: int, source: ov.Output, origin: Port) -> ov.Output:
        """The input of a stage that stands for an output of another one, made if need be."""
        from openvino import op

        stage_model = self.stages[stage]
        name, index = source.get_node().get_friendly_name(), source.get_index()
        if (name, index) not in stage_model.inputs:
            node = op.Parameter(source.get_element_type(), source.get_partial_shape())
            node.set_friendly_name(f"{name}/{index}/stage{stage}")
            stage_model.inputs[name, index] = node
            stage_model.sources.append(origin)
        return stage_model.inputs[name, index].output(0)

    def add_output(self, stage: int, source: ov.Output) -> int:
        """The index of a stage's output that others read, made if need be."""
        from openvino import op

        stage_model = self.stages[stage]
        key = source.get_node().get_friendly_name(), source.get_index()
        if key not in stage_model.outputs:
            stage_model.outputs[key] = len(stage_model.results)
            stage_model.results.append(op.Result(source))
        return stage_model.outputs[key]

    def add_result(self, result: ov.Node) -> Port:
        """Make an output of the model that of its stage."""
        stage = self.owner[result.get_friendly_name()]
        self.stages[stage].results.append(result)
        return stage, len(self.stages[stage].results) - 1
