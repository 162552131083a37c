"""Placements without HETERO: the model is cut into stages, each compiled on its device.

Stages are for what HETERO cannot do: two GPUs in one placement (openvino #38250 leaves the second
empty), and submodels that share a device's threads while several requests are in flight.
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
"""Stands for the model where a stage reads one of its inputs."""
Port = tuple[int, int]
"""A stage and the index of its output, or ``WHOLE_MODEL`` and the index of a model's input."""


@dataclass
class CutStage:
    """A stage of a model that is being cut.

    Attributes:
        sources: (n_inputs,) source of each input: another stage, or the model's inputs.
        inputs: Node name and output index of a tensor that it reads -> its input.
        outputs: Node name and output index of a tensor that others read -> index of its output.
        results: Its outputs.
        sinks: Its operators that write state.
    """

    sources: list[Port] = field(default_factory=list)
    inputs: dict[tuple[str, int], ov.Node] = field(default_factory=dict)
    outputs: dict[tuple[str, int], int] = field(default_factory=dict)
    results: list[ov.Node] = field(default_factory=list)
    sinks: list[ov.Node] = field(default_factory=list)


def cut_model(model: ov.Model, owner: Mapping[str, int]) -> tuple[list[CutStage], list[Port]]:
    """Cut a model, in place, by giving each stage inputs for the tensors of other stages.

    ``owner`` has the stage of each node by name, those of producers first; a constant belongs to
    one stage.

    Returns:
        The stages, and the (n_outputs,) stage and index of each output of the model.
    """
    from openvino import op

    stages = [CutStage() for _ in range(max(owner.values()) + 1)]
    parameters = {node.get_friendly_name(): n for n, node in enumerate(model.get_parameters())}

    def find_origin(source: ov.Output, key: tuple[str, int]) -> Port:
        """The input of the model that a tensor is, or the stage that makes it."""
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
    outputs = []  # of the model, behind those that other stages read
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
        name: Name, as in ``"stage 1 on GPU.0"``.
        compiled: Compiled model.
        sources: (n_inputs,) source of each input.
        turn: Held during an inference. If a device has several stages, they share it: it limits
            their inferences to the number of streams.
        queue: Held also while waiting for the turn. Each of these stages has one with the same
            limit; otherwise a stage with many requests would take most turns.
    """

    name: str
    compiled: ov.CompiledModel
    sources: tuple[Port, ...]
    turn: AbstractContextManager[Any] = field(default_factory=nullcontext)
    queue: AbstractContextManager[Any] = field(default_factory=nullcontext)


@dataclass(frozen=True)
class StagedModel:
    """A model, or one of a union's models, whose stages run in turn, each on its device.

    Attributes:
        stages: Number -> stage, producers first.
        inputs: (n_inputs,) index of each input among those of the whole model.
        outputs: (n_outputs,) stage and index of each output.
        reader: Reads inputs.
    """

    stages: Mapping[int, Stage]
    inputs: tuple[int, ...]
    outputs: tuple[Port, ...]
    reader: InputReader

    def create_infer_request(self) -> StagedRequest:
        """Create a request, which has its own tensors and state; each thread needs one."""
        return StagedRequest(self)


class StagedRequest:
    """The part of ``ov.InferRequest`` that inferences need, over the stages of a model.

    Tensors pass between stages without a copy.
    """

    def __init__(self, model: StagedModel) -> None:
        self.model = model
        self.requests: dict[int, ov.InferRequest] = {}
        self.inputs: dict[int, ov.Tensor] = {}
        for number, stage in model.stages.items():
            self.requests[number] = stage.compiled.create_infer_request()
            own_dynamic_outputs(self.requests[number])

    def reset_state(self) -> None:
        """Forget the state."""
        for request in self.requests.values():
            request.reset_state()

    def infer(self, inputs: Any = None) -> None:
        """Run one inference; ``output_tensors`` has the outputs.

        Args:
            inputs: Inputs for ``ov.InferRequest.infer``: by name or index, in order, or a single
                array. They are copied. None keeps the previous ones.

        Raises:
            UserError: An input is missing, unknown, or of another type or shape.
            EngineError: A stage, which the message names, failed.
        """
        if inputs is None and len(self.inputs) < len(self.model.inputs):
            inputs = {}  # there are no previous ones: the error names what is missing
        if inputs is not None:
            tensors = self.model.reader.read(inputs)
            self.inputs = dict(zip(self.model.inputs, tensors, strict=True))
        for number, stage in self.model.stages.items():
            request = self.requests[number]
            for index, (giver, port) in enumerate(stage.sources):
                if giver == WHOLE_MODEL:
                    request.set_input_tensor(index, self.inputs[port])
                else:
                    request.set_input_tensor(index, self.requests[giver].get_output_tensor(port))
            try:
                with stage.queue, stage.turn:
                    # not in this thread: a thread of the model keeps its data near a core
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

    In OpenVINO 2026.4, requests of a model that ends in a Concat of its inputs share it, and
    overwrite each other's outputs of different sizes.
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

    Stages of one device take turns, so that together they do not exceed its threads.

    Args:
        core: OpenVINO, in which virtual devices are registered.
        model: A model from ``load_model``, which is not changed.
        graph: Its operators.
        operator_devices: (n_operators,) index into ``specs``.
        specs: The devices with their settings.
        config: Additional compile properties.

    Returns:
        A staged model for each model of a union, or a single one.

    Raises:
        CompileError: OpenVINO refused a stage.
    """
    import openvino as ov

    # The same stages as in the simulated throughput.
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
    # Models of a union wait for each other only on devices that they share.
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
    """The prefix of names of a union's model; empty without a union."""
    return f"{member.name}/" if graph.models else ""


def find_inputs(model: ov.Model, prefix: str) -> tuple[int, ...]:
    """Indices of the inputs whose names begin with a prefix."""
    names = [node.get_friendly_name() for node in model.get_parameters()]
    return tuple(index for index, name in enumerate(names) if name.startswith(prefix))
