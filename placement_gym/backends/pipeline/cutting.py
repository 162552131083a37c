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


@dataclass(frozen=True)
class StageModel:
    """One stage of a model.

    Attributes:
        model: Its nodes; inputs are what other stages or the model's inputs give.
        sources: (n_inputs,) where each input comes from.
    """

    model: ov.Model
    sources: tuple[Port, ...]


@dataclass
class Draft:
    """A stage as it is put together."""

    inputs: dict[tuple[str, int], ov.Node] = field(default_factory=dict)
    sources: list[Port] = field(default_factory=list)
    outputs: dict[tuple[str, int], int] = field(default_factory=dict)
    results: list[ov.Node] = field(default_factory=list)
    sinks: list[ov.Node] = field(default_factory=list)


def cut(model: ov.Model, owner: Mapping[str, int]) -> tuple[list[StageModel], list[Port]]:
    """Cut a model into stages; its nodes become theirs, and it cannot be used any more.

    Args:
        model: A model whose static values belong to one stage each.
        owner: Node name -> stage; producers have lower ones than their readers.

    Returns:
        The stages; and (n_outputs,) the stage and its output that each output of the model is.
    """
    return Cutter(model, owner).cut()


class Cutter:
    """Replaces what a stage reads of others by inputs of its own."""

    def __init__(self, model: ov.Model, owner: Mapping[str, int]) -> None:
        self.model = model
        self.owner = owner
        self.drafts = [Draft() for _ in range(max(owner.values()) + 1)]
        self.parameters = {
            node.get_friendly_name(): index for index, node in enumerate(model.get_parameters())
        }

    def cut(self) -> tuple[list[StageModel], list[Port]]:
        import openvino as ov

        for node in self.model.get_ordered_ops():
            for port in node.inputs():
                self.rewire(port, self.owner[node.get_friendly_name()])
        outputs = [self.add_result(result) for result in self.model.get_results()]
        for sink in self.model.get_sinks():
            self.drafts[self.owner[sink.get_friendly_name()]].sinks.append(sink)
        name = self.model.get_friendly_name()
        stages = [
            StageModel(
                ov.Model(
                    draft.results, draft.sinks, [*draft.inputs.values()], f"{name}/stage{number}"
                ),
                tuple(draft.sources),
            )
            for number, draft in enumerate(self.drafts)
        ]
        return stages, outputs

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

        draft = self.drafts[stage]
        name, index = source.get_node().get_friendly_name(), source.get_index()
        if (name, index) not in draft.inputs:
            node = op.Parameter(source.get_element_type(), source.get_partial_shape())
            node.set_friendly_name(f"{name}/{index}/stage{stage}")
            draft.inputs[name, index] = node
            draft.sources.append(given)
        return draft.inputs[name, index].output(0)

    def add_output(self, stage: int, source: ov.Output) -> int:
        """The index of a stage's output that others read, made if need be."""
        from openvino import op

        draft = self.drafts[stage]
        key = source.get_node().get_friendly_name(), source.get_index()
        if key not in draft.outputs:
            draft.outputs[key] = len(draft.results)
            draft.results.append(op.Result(source))
        return draft.outputs[key]

    def add_result(self, result: ov.Node) -> Port:
        """Make an output of the model that of its stage."""
        stage = self.owner[result.get_friendly_name()]
        self.drafts[stage].results.append(result)
        return stage, len(self.drafts[stage].results) - 1
