"""The stages of a placement, each compiled on its device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock, Semaphore
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.pipeline.cutting import WHOLE_MODEL, Cutter, Port
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import CompileError, EngineError
from placement_gym.base.texts import last_line
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.parts import separate_parts
from placement_gym.graph.submodels import pipeline_stages, submodel_devices
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.hardware.machine import register

if TYPE_CHECKING:
    import openvino as ov


class StageError(EngineError):
    """A stage failed on a request; ``stage`` is its name, as in ``"stage 1 on GPU.0"``."""

    def __init__(self, stage: str, error: BaseException) -> None:
        super().__init__(f"{stage} failed: {last_line(error)}")
        self.stage = stage


@dataclass
class Stage:
    """A compiled stage.

    Attributes:
        name: As in ``"stage 1 on GPU.0"``.
        device: Name of its device.
        operators: Names of its operators.
        compiled: Its model.
        sources: (n_inputs,) where each input comes from.
        requests: (n_slots,) one for each request of the pipeline that may be in flight.
        workers: Inferences that may run at a time.
        turn: Held during an inference where the device has several stages.
        busy_s: Seconds that inferences took so far, with handing over what earlier stages computed.
        processor_s: Seconds of processor time of the threads that submitted them.
    """

    name: str
    device: str
    operators: tuple[str, ...]
    compiled: ov.CompiledModel
    sources: tuple[Port, ...]
    requests: list[ov.InferRequest]
    workers: int = 1
    turn: AbstractContextManager[Any] = field(default_factory=nullcontext)
    busy_s: float = 0.0
    processor_s: float = 0.0
    lock: Lock = field(default_factory=Lock)

    def run(self, slot: int, inputs: Sequence[ov.Tensor], stages: Sequence[Stage]) -> None:
        """Run one inference; what earlier stages computed in the slot is read where it lies."""
        request, start_s, processor_s = self.requests[slot], perf_counter(), -thread_time()
        for index, (giver, port) in enumerate(self.sources):
            tensor = (
                stages[giver].requests[slot].get_output_tensor(port)
                if giver != WHOLE_MODEL
                else None
            )
            request.set_input_tensor(index, inputs[port] if tensor is None else tensor)
        seconds = perf_counter() - start_s
        with self.turn:
            start_s = perf_counter()
            request.infer()
            seconds += perf_counter() - start_s
        processor_s += thread_time()
        with self.lock:
            self.busy_s += seconds
            self.processor_s += processor_s


def compile_stages(
    core: ov.Core,
    model: ov.Model,
    graph: OpGraph,
    operator_devices: IntArray,
    specs: Sequence[DeviceSpec],
    requests: int | None = None,
    config: Mapping[str, Any] | None = None,
) -> tuple[list[Stage], list[Port]]:
    """Cut a model into the stages of a placement, and compile each on its device.

    Args:
        core: Virtual devices are registered in it.
        model: As ``models.load`` returns it; not changed.
        graph: Its operators.
        operator_devices: (n_operators,) index into ``specs``.
        specs: The devices, with their settings.
        requests: Requests in flight, of a union rounds; None is one more than stages of a model,
            and for a device alone twice its streams.
        config: Further compile properties.

    Returns:
        The stages; and (n_outputs,) the stage and its output that each output of the model is.

    Raises:
        CompileError: OpenVINO refused a stage.
    """
    # Stages follow from the placement alone, so that the simulated pipeline has the same.
    stage_of = pipeline_stages(graph, operator_devices)
    stage_devices = submodel_devices(graph, operator_devices, stage_of).tolist()
    parts = model.clone()
    cut, outputs = Cutter(parts, separate_parts(parts, graph, stage_of)).cut()
    register(core, specs)
    # Stages of one device share its streams: they take turns, or each would take all cores, as a
    # compiled model has threads of its own.
    turns: dict[int, AbstractContextManager[Any]] = {
        device: Semaphore(count_streams(specs[device]))
        if stage_devices.count(device) > 1
        else nullcontext()
        for device in set(stage_devices)
    }
    models = np.empty(len(cut), dtype=np.int64)
    models[stage_of] = graph.model_of
    longest = int(np.bincount(models).max())
    # One request more than stages keeps all of them busy; a device alone fills its streams.
    in_flight = requests or (
        2 * count_streams(specs[stage_devices[0]]) if len(cut) == 1 else longest + 1
    )
    stages = []
    for number, part in enumerate(cut):
        spec = specs[stage_devices[number]]
        runs_alone = (
            stage_devices.count(stage_devices[number])
            == 1
            == np.count_nonzero(models == models[number])
        )
        slots = in_flight * int(graph.rates[models[number]])
        built = part.build(f"{model.get_friendly_name()}/stage{number}")
        compiled = compile_on(core, built, spec, f"stage {number} on {spec.name}", config)
        stages.append(
            Stage(
                f"stage {number} on {spec.name}",
                spec.name,
                tuple(graph.names[i] for i in (stage_of == number).nonzero()[0]),
                compiled,
                tuple(part.sources),
                [compiled.create_infer_request() for _ in range(slots)],
                slots if runs_alone else count_streams(spec),  # alone it has a queue of its own
                turns[stage_devices[number]],
            )
        )
    return stages, outputs


def compile_on(
    core: ov.Core,
    model: ov.Model,
    spec: DeviceSpec,
    name: str,
    config: Mapping[str, Any] | None = None,
) -> ov.CompiledModel:
    """Compile a model on a device with its settings.

    Raises:
        CompileError: OpenVINO refused it.
    """
    try:
        return core.compile_model(model, spec.name, {**spec.compile_properties(), **(config or {})})
    except RuntimeError as error:
        raise CompileError(f"OpenVINO refused {name}: {last_line(error)}") from error


def with_streams(spec: DeviceSpec, streams: int) -> DeviceSpec:
    """The device, compiled with so many streams."""
    return replace(spec, properties={**spec.properties, "NUM_STREAMS": streams})


def count_streams(spec: DeviceSpec) -> int:
    """Inferences that a device runs at a time; 1 where OpenVINO chooses."""
    streams = str(spec.compile_properties().get("NUM_STREAMS", 1))
    return max(int(streams), 1) if streams.lstrip("-").isdigit() else 1
