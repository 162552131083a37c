"""A model cut into the models of a pipeline's stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino as ov

MODEL = -1
"""Stands for the whole model where a stage reads one of its inputs."""
Port = tuple[int, int]
"""A stage, or ``MODEL``, and the index of one of its outputs, or of the model's inputs."""


@dataclass
class StageModel:
    """A stage of a model, as it is put together.

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
    """Replaces what a stage reads of others by inputs of its own.

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
        """Let a port read an input of its stage, if what it reads is not of that stage."""
        source = port.get_source_output()
        name = source.get_node().get_friendly_name()
        if name in self.parameters:
            given = MODEL, self.parameters[name]
            port.replace_source_output(self.add_input(stage, source, given))
        elif self.owner[name] != stage:
            giver = self.owner[name]
            given = giver, self.add_output(giver, source)
            port.replace_source_output(self.add_input(stage, source, given))

    def add_input(self, stage: int, source: ov.Output, given: Port) -> ov.Output:
        """The input of a stage that stands for an output of another one, made if need be."""
        from openvino import op

        own = self.stages[stage]
        name, index = source.get_node().get_friendly_name(), source.get_index()
        if (name, index) not in own.inputs:
            node = op.Parameter(source.get_element_type(), source.get_partial_shape())
            node.set_friendly_name(f"{name}/{index}/stage{stage}")
            own.inputs[name, index] = node
            own.sources.append(given)
        return own.inputs[name, index].output(0)

    def add_output(self, stage: int, source: ov.Output) -> int:
        """The index of a stage's output that others read, made if need be."""
        from openvino import op

        own = self.stages[stage]
        key = source.get_node().get_friendly_name(), source.get_index()
        if key not in own.outputs:
            own.outputs[key] = len(own.results)
            own.results.append(op.Result(source))
        return own.outputs[key]

    def add_result(self, result: ov.Node) -> Port:
        """Make an output of the model that of its stage."""
        stage = self.owner[result.get_friendly_name()]
        self.stages[stage].results.append(result)
        return stage, len(self.stages[stage].results) - 1
