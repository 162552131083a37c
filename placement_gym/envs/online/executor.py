"""Plans at work: a thread for each device, which serves requests in the order of their arrival."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Queue
from threading import Event, Lock, Thread, get_native_id
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from placement_gym.backends.pipeline.cutting import WHOLE_MODEL, Cutter, Port
from placement_gym.backends.pipeline.inputs import InputReader
from placement_gym.backends.pipeline.stage import StageError, compile_on
from placement_gym.base.arrays import FloatArray
from placement_gym.base.errors import EngineError, UserError
from placement_gym.envs.online.kernel import hold
from placement_gym.envs.online.observation import KEPT, Layout, Seen, fill_observation
from placement_gym.envs.online.plans import PlanTable, ServingPlan
from placement_gym.graph.extract import extract_spec
from placement_gym.graph.parts import separate_parts
from placement_gym.graph.submodels import pipeline_stages
from placement_gym.hardware.machine import register
from placement_gym.models.loading import load
from placement_gym.models.stateful import is_stateful

if TYPE_CHECKING:
    import openvino as ov

Outputs = list[NDArray[Any]]
RECENT = 0.3
"""Weight of the last stage in a device's pace."""


@dataclass(frozen=True)
class CutPlan:
    """The models of a plan's stages, not compiled.

    Attributes:
        models: (n_stages,).
        sources: (n_stages,) of each, where its inputs come from; see ``cutting.Port``.
        outputs: (n_outputs,) the stage and its output that each output of the model is.
    """

    models: tuple[ov.Model, ...]
    sources: tuple[tuple[Port, ...], ...]
    outputs: tuple[Port, ...]


@dataclass
class Job:
    """A request on its way.

    Attributes:
        plan: Its parts.
        first: Number of its first stage.
        number: Its own.
        inputs: Of the model.
        future: Its outputs, and ``seconds`` since it arrived.
        ready: (n_stages + 1,) set when a stage may begin, or is not needed any more.
        released: (n_stages,) stages whose weights leave before each.
        values: Outputs of its stages so far.
    """

    plan: CutPlan
    first: int
    number: int
    inputs: Sequence[Any]
    future: Future[tuple[Outputs, float]] = field(default_factory=Future)
    ready: list[Event] = field(default_factory=list)
    released: list[list[int]] = field(default_factory=list)
    values: list[Outputs] = field(default_factory=list)
    arrived_s: float = field(default_factory=perf_counter)


class PlanExecutor:
    """Runs requests by plans, and knows what their devices have to do.

    Weights are loaded when a stage needs them, in place of those that were not used for longest
    where a device's limit is reached: loading is compiling.

    Args:
        core: Virtual devices are registered in it.
        plans: Made by solvers, so that each has a placement.
        models: Model by name; None, and what it lacks, loads built-in ones.
        cores: Core of the processor for the thread of each device; None leaves that to the system.

    Raises:
        UserError: A plan has no placement, or a model keeps state.
        PlacementMismatchError: A plan was made for another model.
    """

    def __init__(
        self,
        core: ov.Core,
        plans: PlanTable,
        models: Mapping[str, Any] | None = None,
        cores: Sequence[int] | None = None,
    ) -> None:
        register(core, plans.devices)
        loaded = [load((models or {}).get(one.name, one.name)) for one in plans.models]
        self.core, self.plans, self.tables, self.cores = core, plans, plans.tables, cores
        self.readers = [InputReader(model) for model in loaded]
        self.cuts = [
            [cut(model, plan) for plan in own]
            for model, own in zip(loaded, plans.plans, strict=True)
        ]
        self.used = np.full(len(self.tables.device), -1)
        self.work_ms: list[dict[tuple[int, int], float]] = [{} for _ in plans.devices]
        self.begun_s = np.zeros(len(plans.devices))
        self.pace = np.ones(len(plans.devices))
        self.requests, self.lock = 0, Lock()
        self.mix, self.gap_ms, self.last_s = np.array(plans.shares), 0.0, 0.0
        self.compiled: dict[int, Any] = {}
        self.timings: dict[int, list[tuple[float, float]]] = {}
        """Of each stage, seconds that loading and running took, each time."""
        self.queues: list[Queue[tuple[Job, int] | None]] = [Queue() for _ in plans.devices]
        self.threads = [
            Thread(target=self.work, args=(device,), name=spec.name, daemon=True)
            for device, spec in enumerate(plans.devices)
        ]
        for thread in self.threads:
            thread.start()

    def observe(self, model: int, pace: FloatArray) -> Seen:
        """(n_entries,) what is seen of the devices as a request of a model arrives, once for each.

        Args:
            model: Number of its model.
            pace: (n_devices,) times as long that work takes now.
        """
        now_s = perf_counter()
        if self.last_s:
            gap_ms = (now_s - self.last_s) * 1e3
            self.gap_ms = KEPT * (self.gap_ms or gap_ms) + (1.0 - KEPT) * gap_ms
        self.last_s = now_s
        seen = np.empty(Layout.of(self.plans).size, np.float32)
        known = self.queue_ms(), pace, self.used, model
        fill_observation(self.tables, *known, self.mix, self.gap_ms, seen)
        return seen

    def submit(self, model: int, plan: int, inputs: Any) -> Future[tuple[Outputs, float]]:
        """Queue a request.

        Args:
            model: Number of its model.
            plan: Number of one of the model's plans.
            inputs: As ``Pipeline.submit`` takes them.

        Returns:
            The future outputs, and seconds from now until they were there. ``StageError`` is what
            a stage raised.
        """
        number = model * self.plans.n_plans + plan
        stages = range(self.tables.first[number], self.tables.first[number + 1])
        tensors = self.readers[model].read(inputs)
        with self.lock:
            self.requests += 1
            self.mix *= KEPT
            self.mix[model] += 1.0 - KEPT
            job = Job(self.cuts[model][plan], stages.start, self.requests, tensors)
            job.future.set_running_or_notify_cancel()  # what is queued is not cancelled
            job.ready = [Event() for _ in (*stages, None)]
            job.ready[0].set()
            for stage in stages:
                before = self.used >= 0
                absent = hold(self.tables, self.used, stage, job.number)
                job.released.append(np.flatnonzero(before & (self.used < 0)).tolist())
                work_ms = self.tables.work_ms[stage] + absent * self.tables.load_ms[stage]
                device = self.tables.device[stage]
                self.work_ms[device][job.number, stage] = float(work_ms)
                self.queues[device].put((job, stage))
        return job.future

    def queue_ms(self) -> FloatArray:
        """(n_devices,) work that each device still has, by the plans' times."""
        with self.lock:
            begun = np.where(self.begun_s > 0, (perf_counter() - self.begun_s) * 1e3, 0.0)
            queued = [list(work.values()) for work in self.work_ms]
        done = begun / self.pace
        return np.array(
            [
                max(own[0] - done[device], 0.0) + sum(own[1:]) if own else 0.0
                for device, own in enumerate(queued)
            ]
        )

    def forget(self, gap_ms: float) -> None:
        """Release all weights, and expect requests of all models at this distance.

        Nothing may be queued.
        """
        self.compiled.clear()
        self.used[:], self.pace[:] = -1, 1.0
        self.mix[:], self.gap_ms, self.last_s = self.plans.shares, gap_ms, 0.0

    def work(self, device: int) -> None:
        """Serve one stage after another; runs in the device's thread."""
        if self.cores is not None:
            with suppress(OSError):
                os.sched_setaffinity(get_native_id(), {self.cores[device]})
        while (task := self.queues[device].get()) is not None:
            job, stage = task
            position = stage - job.first
            job.ready[position].wait()
            began_s = self.begun_s[device] = perf_counter()
            try:
                if not job.future.done():
                    self.run(job, stage, position)
            except Exception as error:
                name = f"stage {position} on {self.plans.devices[device].name}"
                job.future.set_exception(StageError(name, error))
            job.ready[position + 1].set()
            with self.lock:
                planned_ms = self.work_ms[device].pop((job.number, stage))
                self.begun_s[device] = 0.0
                ratio = (perf_counter() - began_s) * 1e3 / max(planned_ms, 1e-3)
                self.pace[device] = max((1 - RECENT) * self.pace[device] + RECENT * ratio, 1.0)

    def run(self, job: Job, stage: int, position: int) -> None:
        """Run a stage of a request; the last one hands over the outputs."""
        began_s = perf_counter()
        for released in job.released[position]:
            self.compiled.pop(released, None)
        if stage not in self.compiled:
            spec = self.plans.devices[self.tables.device[stage]]
            model = job.plan.models[position]
            compiled = compile_on(self.core, model, spec, f"stage {position} on {spec.name}")
            self.compiled[stage] = compiled.create_infer_request()
        request, loaded_s = self.compiled[stage], perf_counter()
        for index, (giver, port) in enumerate(job.plan.sources[position]):
            given = job.inputs[port] if giver == WHOLE_MODEL else job.values[giver][port]
            request.set_input_tensor(index, as_tensor(given))
        request.infer()
        # The next request of this stage writes over its outputs.
        job.values.append([tensor.data.copy() for tensor in request.output_tensors])
        times = loaded_s - began_s, perf_counter() - loaded_s
        self.timings.setdefault(stage, []).append(times)
        if position + 1 == len(job.plan.models):
            outputs = [job.values[giver][port] for giver, port in job.plan.outputs]
            job.future.set_result((outputs, perf_counter() - job.arrived_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the requests that are queued, and end the threads."""
        for queue in self.queues:
            queue.put(None)
        for thread in self.threads:
            thread.join()


def as_tensor(value: Any) -> Any:
    """A tensor of an array; tensors stay as they are."""
    import openvino as ov

    return ov.Tensor(value) if isinstance(value, np.ndarray) else value


def cut(model: ov.Model, plan: ServingPlan) -> CutPlan:
    """Cut a model into the stages of a plan.

    Raises:
        UserError: The plan has no placement, or the model keeps state.
        PlacementMismatchError: The plan was made for another model.
    """
    if plan.placement is None:
        raise UserError(f"plan {plan.label!r} has no placement: it can only be simulated")
    if is_stateful(model):
        raise UserError(
            f"{model.get_friendly_name()!r} keeps state, and its requests are whole sequences: "
            "serve it with Pipeline.submit_sequence"
        )
    graph = extract_spec(model, plan.placement.spec)
    stage_of = pipeline_stages(graph, plan.placement.operator_devices(graph))
    parts = model.clone()
    stages, outputs = Cutter(parts, separate_parts(parts, graph, stage_of)).cut()
    if len(stages) != len(plan.stages):
        raise EngineError(f"plan {plan.label!r} has other stages than its placement: make it again")
    return CutPlan(
        tuple(one.build(f"{graph.model}/stage{i}") for i, one in enumerate(stages)),
        tuple(tuple(one.sources) for one in stages),
        tuple(outputs),
    )
