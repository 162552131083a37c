"""A placement without HETERO: the model is cut into stages, each compiled by itself on its device.

HETERO is how placements run. Stages are for what it cannot do: two GPUs in one placement (openvino
#38250 leaves the second empty), and submodels that share the threads of one device, where several
requests are in flight: HETERO gives each submodel its own threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from threading import Semaphore
from typing import TYPE_CHECKING, Any

from placement_gym.base import EngineError, IntArray, last_line
from placement_gym.graph import OpGraph, pipeline_stages, separate_parts, submodel_devices
from placement_gym.hardware import DeviceSpec, compile_on, register
from placement_gym.models import InputReader, Member

if TYPE_CHECKING:
    import openvino as ov

WHOLE_MODEL = -1
"""Index that represents the model itself, where a stage reads one of its inputs."""
Port = tuple[int, int]
"""A stage, or ``WHOLE_MODEL``, and the index of one of its outputs, or of the model's inputs."""


@dataclass
class CutStage:
    """A stage of a model that is being cut.

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


def cut_model(model: ov.Model, owner: Mapping[str, int]) -> tuple[list[CutStage], list[Port]]:
    """Replace what each stage reads of others by its own inputs.

    Args:
        model: A model whose static values belong to one stage each; it cannot be used any more.
        owner: Node name -> stage; producers have lower ones than their readers.

    Returns:
        The stages; and (n_outputs,) the stage that has each output of the model, and where.
    """
    from openvino import op

    stages = [CutStage() for _ in range(max(owner.values()) + 1)]
    parameters = {node.get_friendly_name(): n for n, node in enumerate(model.get_parameters())}

    def find_origin(source: ov.Output, key: tuple[str, int]) -> Port:
        """The input of the model that an output is, or the stage that gives it to others."""
        if key[0] in parameters:
            return WHOLE_MODEL, parameters[key[0]]
        giver = stages[owner[key[0]]]
        if key not in giver.outputs:
            giver.outputs[key] = len(giver.results)
            giver.results.append(op.Result(source))
        return owner[key[0]], giver.outputs[key]

    for node in model.get_ordered_ops():
        number = owner[node.get_friendly_name()]
        stage = stages[number]
        for port in node.inputs():
            source = port.get_source_output()
            key = source.get_node().get_friendly_name(), source.get_index()
            if key[0] not in parameters and owner[key[0]] == number:
                continue
            if key not in stage.inputs:
                own = op.Parameter(source.get_element_type(), source.get_partial_shape())
                own.set_friendly_name(f"{key[0]}/{key[1]}/stage{number}")
                stage.sources.append(find_origin(source, key))
                stage.inputs[key] = own
            port.replace_source_output(stage.inputs[key].output(0))
    # The outputs of the model, behind those that other stages read.
    outputs = []
    for result in model.get_results():
        number = owner[result.get_friendly_name()]
        outputs.append((number, len(stages[number].results)))
        stages[number].results.append(result)
    for sink in model.get_sinks():
        stages[owner[sink.get_friendly_name()]].sinks.append(sink)
    return stages, outputs


@dataclass(frozen=True)
class Stage:
    """A compiled stage.

    Attributes:
        name: As in ``"stage 1 on GPU.0"``.
        compiled: Its model.
        sources: (n_inputs,) where each input comes from.
        turn: Held during an inference where the device has several stages, by no more of them all
            at a time than it has streams.
        queue: Held from before an inference waits for the turn, by no more of this stage: else a
            stage with many requests would take most turns.
    """

    name: str
    compiled: ov.CompiledModel
    sources: tuple[Port, ...]
    turn: AbstractContextManager[Any] = field(default_factory=nullcontext)
    queue: AbstractContextManager[Any] = field(default_factory=nullcontext)


@dataclass(frozen=True)
class StagedModel:
    """A model whose stages run one after another, each on its device.

    Attributes:
        stages: Its stages by number, producers first; of a union's models those of one.
        inputs: (n_inputs,) index that each of its inputs has among those of the whole model.
        outputs: (n_outputs,) the stage and its output that each output is.
        reader: Reads its inputs.
    """

    stages: Mapping[int, Stage]
    inputs: tuple[int, ...]
    outputs: tuple[Port, ...]
    reader: InputReader

    def create_infer_request(self) -> StagedRequest:
        """A request with its own tensors and state; each thread needs one."""
        return StagedRequest(self)


class StagedRequest:
    """The part of ``ov.InferRequest`` that inferences need, over the stages of a model.

    Tensors pass from stage to stage without a copy.

    Args:
        model: Its stages.
    """

    def __init__(self, model: StagedModel) -> None:
        self.model = model
        self.requests = {
            number: stage.compiled.create_infer_request() for number, stage in model.stages.items()
        }
        self.inputs: dict[int, ov.Tensor] = {}
        for request in self.requests.values():
            own_dynamic_outputs(request)

    def reset_state(self) -> None:
        """Forget the state."""
        for request in self.requests.values():
            request.reset_state()

    def infer(self, inputs: Any = None) -> None:
        """Run one inference; ``output_tensors`` has the outputs.

        Args:
            inputs: As ``ov.InferRequest.infer`` takes them: by name or index, in order, or a
                single array. They are copied. None keeps the previous ones.

        Raises:
            UserError: An input is missing, unknown, or of another type or shape.
            EngineError: A stage failed; it is named.
        """
        if inputs is not None:
            tensors = self.model.reader.read(inputs)
            self.inputs = dict(zip(self.model.inputs, tensors, strict=True))
        for number, stage in self.model.stages.items():
            request = self.requests[number]
            for index, (giver, port) in enumerate(stage.sources):
                whole = giver == WHOLE_MODEL
                request.set_input_tensor(
                    index,
                    self.inputs[port] if whole else self.requests[giver].get_output_tensor(port),
                )
            try:
                with stage.queue, stage.turn:
                    # not in this thread: the model's own keeps its data near a core
                    request.start_async()
                    request.wait()
            except RuntimeError as error:
                raise EngineError(f"{stage.name} failed: {last_line(error)}") from error

    @property
    def output_tensors(self) -> list[ov.Tensor]:
        """The outputs of the last inference."""
        return [
            self.requests[number].get_output_tensor(port) for number, port in self.model.outputs
        ]


def own_dynamic_outputs(request: ov.InferRequest) -> None:
    """Give a request its own memory for outputs of dynamic size.

    In OpenVINO 2026.4 requests of a model that ends in a Concat of its inputs share it otherwise,
    and overwrite each other's outputs where sizes differ.
    """
    import openvino as ov

    for index, port in enumerate(request.model_outputs):
        shape = port.get_partial_shape()
        if shape.is_dynamic and shape.rank.is_static:
            empty = [size.get_length() if size.is_static else 0 for size in shape]
            request.set_output_tensor(index, ov.Tensor(port.get_element_type(), ov.Shape(empty)))


def compile_cut(
    core: ov.Core,
    model: ov.Model,
    graph: OpGraph,
    operator_devices: IntArray,
    specs: Sequence[DeviceSpec],
    config: Mapping[str, Any] | None = None,
) -> list[StagedModel]:
    """Cut a model into the stages of a placement, and compile each on its device.

    Stages of one device take turns, one for each of its streams: all of them together compute on no
    more threads than it states.

    Args:
        core: Virtual devices are registered in it.
        model: As ``load_model`` returns it; not changed.
        graph: Its operators.
        operator_devices: (n_operators,) index into ``specs``.
        specs: The devices, with their settings.
        config: Further compile properties.

    Returns:
        The stages of each model of a union; of any other model a single item.

    Raises:
        CompileError: OpenVINO refused a stage.
    """
    import openvino as ov

    # Stages follow from the placement alone: the simulated throughput has the same.
    stage_of = pipeline_stages(graph, operator_devices)
    stage_devices = submodel_devices(graph, operator_devices, stage_of).tolist()
    parts = model.clone()
    cut, outputs = cut_model(parts, separate_parts(parts, graph, stage_of))
    register(core, specs)

    def make_semaphore(device: int) -> AbstractContextManager[Any]:
        shared = stage_devices.count(device) > 1
        return Semaphore(specs[device].streams) if shared else nullcontext()

    turns = {device: make_semaphore(device) for device in set(stage_devices)}
    stages = []
    for number, (part, device) in enumerate(zip(cut, stage_devices, strict=True)):
        name = f"stage {number} on {specs[device].name}"
        title = f"{model.get_friendly_name()}/stage{number}"
        built = ov.Model(part.results, part.sinks, [*part.inputs.values()], title)
        compiled = compile_on(core, built, specs[device], name, config)
        sources, queue = tuple(part.sources), make_semaphore(device)
        stages.append(Stage(name, compiled, sources, turns[device], queue))
    # A model of a union waits for no other one, except for devices that they share.
    model_of_stage = submodel_devices(graph, graph.model_of, stage_of).tolist()
    staged_models = []
    for number, member in enumerate(graph.models or (Member(graph.model),)):
        own = {at: stages[at] for at, owner in enumerate(model_of_stage) if owner == number}
        own_outputs = tuple(port for port in outputs if port[0] in own)
        prefix = name_prefix(graph, member)
        inputs, reader = find_inputs(model, prefix), InputReader(model, prefix)
        staged_models.append(StagedModel(own, inputs, own_outputs, reader))
    return staged_models


def name_prefix(graph: OpGraph, member: Member) -> str:
    """The prefix of names of a union's model; empty for a model that is not a union."""
    return f"{member.name}/" if graph.models else ""


def find_inputs(model: ov.Model, prefix: str) -> tuple[int, ...]:
    """The inputs whose names begin with a prefix, by index."""
    names = [node.get_friendly_name() for node in model.get_parameters()]
    return tuple(index for index, name in enumerate(names) if name.startswith(prefix))
