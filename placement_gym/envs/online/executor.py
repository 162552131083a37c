"""Plans at work: a thread for each device, which serves requests in the order of their arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from placement_gym.backends.pipeline.cutting import WHOLE_MODEL, Cutter, Port
from placement_gym.backends.pipeline.inputs import InputReader
from placement_gym.backends.pipeline.stage import StageError
from placement_gym.backends.pipeline.stage_threads import Outputs, settle
from placement_gym.base.errors import EngineError, UserError
from placement_gym.envs.online.engine import Engine
from placement_gym.envs.online.engine_process import Values, pack
from placement_gym.envs.online.kernel import HISTORY_WEIGHT, State, hold
from placement_gym.envs.online.plans import PlanTable, ServingPlan
from placement_gym.graph.extract import extract_spec
from placement_gym.graph.parts import separate_parts
from placement_gym.graph.submodels import pipeline_stages
from placement_gym.hardware.machine import register
from placement_gym.models.loading import load
from placement_gym.models.stateful import is_stateful

if TYPE_CHECKING:
    import openvino as ov

LAST_STAGE_WEIGHT = 0.3
"""Weight of the last stage in a device's pace: ours, about the last three."""


@dataclass(frozen=True)
class CutPlan:
    """The models of a plan's stages, not compiled.

    Attributes:
        models: (n_stages,).
        sources: (n_stages,) of each, where its inputs come from; see ``cutting.Port``.
        outputs: (n_outputs,) the stage and its output that each output of the model is.
    """

    models: list[ov.Model]
    sources: list[list[Port]]
    outputs: list[Port]


@dataclass
class Job:
    """A request on its way.

    Attributes:
        plan: Its parts.
        first: Number of its first stage.
        inputs: Of the model.
        done: (n_stages,) outputs of each stage.
        answer: Those of the model, and seconds since the request arrived.
        released: (n_stages,) stages whose weights leave before each.
        arrived_s: When the request arrived.
    """

    plan: CutPlan
    first: int
    inputs: list[Values]
    done: list[Future[list[Values]]]
    answer: Future[tuple[Outputs, float]] = field(default_factory=Future)
    released: list[list[int]] = field(default_factory=list)
    arrived_s: float = field(default_factory=perf_counter)


class PlanExecutor:
    """Runs requests by plans, and keeps account of what their devices have to do.

    Weights are loaded when a stage needs them, in place of those that were not used for longest
    where a device's limit is reached: loading is compiling. Each device's engine has a process of
    its own: a stage that it crashes in is tried once more in a new one, and a stage that raises, or
    crashes again, fails its request alone.

    Args:
        plans: Made by solvers, so that each has a placement.
        models: Model by name; what it lacks is built in.
        cores: Core of the processor for each device; None leaves that to the system.

    Raises:
        UserError: A plan has no placement, or a model keeps state.
        PlacementMismatchError: A plan was made for another model.
    """

    def __init__(
        self,
        plans: PlanTable,
        models: Mapping[str, Any],
        cores: Sequence[int] | None = None,
    ) -> None:
        import openvino as ov

        register(ov.Core(), plans.devices)  # raises what the engines' processes would
        loaded = [load(models.get(entry.name, entry.name)) for entry in plans.models]
        self.plans, self.tables, self.folder = plans, plans.tables, TemporaryDirectory()
        self.readers = [InputReader(model) for model in loaded]
        self.cuts = [
            [cut(model, plan) for plan in own]
            for model, own in zip(loaded, plans.plans, strict=True)
        ]
        self.lock = Lock()
        self.engines = [
            Engine(spec, cores[number] if cores else None)
            for number, spec in enumerate(plans.devices)
        ]
        self.took_ms: dict[int, list[float]] = {}
        """Time that loading and running a stage took, the last time."""
        self.queued_ms: list[deque[float]] = [deque() for _ in plans.devices]
        self.begun_s = np.zeros(len(plans.devices))
        self.forget(0.0)
        self.queues: list[Queue[tuple[Job, int] | None]] = [Queue() for _ in plans.devices]
        self.threads = [
            Thread(target=self.work, args=(device,), name=spec.name, daemon=True)
            for device, spec in enumerate(plans.devices)
        ]
        for thread in self.threads:
            thread.start()

    def forget(self, gap_ms: float) -> None:
        """Release all weights, and expect requests of all models at this distance.

        Nothing may be queued.
        """
        self.release(range(len(self.tables.device)))
        self.used, self.pace = np.full(len(self.tables.device), -1), np.ones(len(self.begun_s))
        self.mix, self.gap_ms, self.last_s = np.array(self.plans.shares), gap_ms, 0.0

    def release(self, stages: Sequence[int]) -> None:
        """Drop weights of stages from their devices."""
        for stage in stages:
            self.engines[self.tables.device[stage]].released.append(stage)

    def look(self) -> State:
        """The state, of one trace, as a request arrives; a look for each request."""
        now_s = perf_counter()
        with self.lock:
            if self.last_s:
                gap_ms = (now_s - self.last_s) * 1e3
                self.gap_ms = (
                    HISTORY_WEIGHT * (self.gap_ms or gap_ms) + (1.0 - HISTORY_WEIGHT) * gap_ms
                )
            self.last_s = now_s
            begun = self.begun_s > 0
            done_ms = np.where(begun, (now_s - self.begun_s) * 1e3 / self.pace, 0.0)
            queue_ms = [
                max(own[0] - done, 0.0) + sum(own) - own[0] if own else 0.0
                for own, done in zip(self.queued_ms, done_ms, strict=True)
            ]
            return State(
                np.array([queue_ms]),
                self.pace[None].copy(),
                self.used[None].copy(),
                self.mix[None].copy(),
                np.array([self.gap_ms]),
            )

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
        tables, number = self.tables, model * self.tables.allowed.shape[1] + plan
        stages = range(tables.first[number], tables.first[number + 1])
        values = [pack(tensor) for tensor in self.readers[model].read(inputs)]
        job = Job(self.cuts[model][plan], stages.start, values, [Future() for _ in stages])
        job.answer.set_running_or_notify_cancel()  # what is queued is not cancelled
        with self.lock:
            self.mix *= HISTORY_WEIGHT
            self.mix[model] += 1.0 - HISTORY_WEIGHT
            for stage in stages:
                before, device = self.used >= 0, tables.device[stage]
                absent = hold(tables, self.used, stage)
                job.released.append(np.flatnonzero(before & (self.used < 0)).tolist())
                self.queued_ms[device].append(
                    tables.work_ms[stage] + absent * tables.load_ms[stage]
                )
                self.queues[device].put((job, stage))
        return job.answer

    def work(self, device: int) -> None:
        """Serve one stage after another; runs in the device's thread."""
        while (task := self.queues[device].get()) is not None:
            job, stage = task
            position, name = stage - job.first, self.plans.devices[device].name
            wait(job.done[:position])
            began_s = self.begun_s[device] = perf_counter()
            try:
                job.done[position].set_result(self.run(job, stage, position))
            except Exception as error:
                failure = StageError(f"stage {position} on {name}", error)
                job.done[position].set_exception(failure)
            with self.lock:
                planned_ms = self.queued_ms[device].popleft()
                self.begun_s[device] = 0.0
                ratio = (perf_counter() - began_s) * 1e3 / max(planned_ms, 1e-3)
                pace = self.pace[device]
                self.pace[device] = max(pace + LAST_STAGE_WEIGHT * (ratio - pace), 1.0)
            if position + 1 == len(job.done):
                finish(job)

    def run(self, job: Job, stage: int, position: int) -> list[Values]:
        """Run a stage of a request; returns its outputs."""
        inputs = [
            (job.inputs if giver == WHOLE_MODEL else job.done[giver].result())[port]
            for giver, port in job.plan.sources[position]
        ]
        self.release(job.released[position])
        engine, model = self.engines[self.tables.device[stage]], job.plan.models[position]
        outputs, *self.took_ms[stage] = engine.run(stage, self.write(stage, model), inputs)
        return outputs

    def write(self, stage: int, model: ov.Model) -> str:
        """The file of a stage's model, written once."""
        import openvino as ov

        file = Path(self.folder.name, f"{stage}.xml")
        if not file.exists():
            ov.serialize(model, file)
        return str(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the requests that are queued, and end the threads."""
        for queue in self.queues:
            queue.put(None)
        for thread in self.threads:
            thread.join()
        for engine in self.engines:
            engine.close()
        self.folder.cleanup()


def finish(job: Job) -> None:
    """Answer a request whose stages are done, with the first failure if there is one."""
    try:
        done = [future.result() for future in job.done]
    except StageError as error:
        settle(job.answer.set_exception, error)
    else:
        outputs = [done[giver][port][2] for giver, port in job.plan.outputs]
        settle(job.answer.set_result, (outputs, perf_counter() - job.arrived_s))


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
    built = [stage.build(f"{graph.model}/stage{number}") for number, stage in enumerate(stages)]
    return CutPlan(built, [stage.sources for stage in stages], outputs)
