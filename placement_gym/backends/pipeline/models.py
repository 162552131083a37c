"""The models of a union: each a pipeline of its own, on devices that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from placement_gym.backends.pipeline.cutting import WHOLE_MODEL, Port
from placement_gym.backends.pipeline.executor import StageExecutor
from placement_gym.backends.pipeline.inputs import InputReader
from placement_gym.backends.pipeline.stage import Stage
from placement_gym.graph.operators import OpGraph
from placement_gym.models.members import Member
from placement_gym.models.stateful import is_stateful

if TYPE_CHECKING:
    import openvino as ov


@dataclass(frozen=True)
class ModelPipeline:
    """The stages of one model, which wait for no other model but where they share a device.

    Attributes:
        member: Its name, and how often it runs in a round.
        stages: Its stages.
        outputs: (n_outputs,) the stage and its output that each output of the model is.
        inputs: (n_inputs,) which inputs of the union are its own.
        reader: Reads its inputs, by the names that they have without the union.
        stateful: Whether it keeps state.
    """

    member: Member
    stages: tuple[Stage, ...]
    outputs: tuple[Port, ...]
    inputs: tuple[int, ...]
    reader: InputReader
    stateful: bool

    def execute(self) -> StageExecutor:
        """Start its threads."""
        return StageExecutor(self.stages, self.outputs, self.reader, self.stateful)


def group_by_model(
    model: ov.Model, graph: OpGraph, stages: Sequence[Stage], outputs: Sequence[Port]
) -> list[ModelPipeline]:
    """The pipeline of each model of a union; of any other model its only one.

    Args:
        model: As ``models.load`` returns it.
        graph: Its operators.
        stages: See ``compile_stages``; none holds parts of two models.
        outputs: (n_outputs,) the stage and its output that each output of ``model`` is.
    """
    # A model that is no union has no name before those of its operators.
    prefixes = {member: f"{member.name}/" for member in graph.models} or {Member(graph.model): ""}
    return [
        take_model(model, member, prefix, stages, outputs) for member, prefix in prefixes.items()
    ]


def take_model(
    model: ov.Model, member: Member, prefix: str, stages: Sequence[Stage], outputs: Sequence[Port]
) -> ModelPipeline:
    """One model, its stages and inputs numbered without the others of a union."""
    own = [i for i, stage in enumerate(stages) if stage.operators[0].startswith(prefix)]
    names = [node.get_friendly_name() for node in model.get_parameters()]
    inputs = [index for index, name in enumerate(names) if name.startswith(prefix)]

    def renumber(port: Port) -> Port:
        giver, index = port
        return (giver, inputs.index(index)) if giver == WHOLE_MODEL else (own.index(giver), index)

    return ModelPipeline(
        member,
        tuple(
            replace(stages[i], sources=tuple(renumber(port) for port in stages[i].sources))
            for i in own
        ),
        tuple(renumber(port) for port in outputs if port[0] in own),
        tuple(inputs),
        InputReader(model, prefix),
        is_stateful(model),
    )
