"""Plans at work: each device serves the stages of requests in the order of their arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from placement_gym.backends.pipeline.cutting import WHOLE_MODEL, Cutter, Port
from placement_gym.backends.pipeline.inputs import InputReader
from placement_gym.backends.pipeline.stage import StageError
from placement_gym.backends.pipeline.stage_threads import Outputs, settle
from placement_gym.base.errors import EngineError, UserError
from placement_gym.envs.online.engine import Engine
from placement_gym.envs.online.engine_process import Arrays
from placement_gym.envs.online.kernel import HISTORY_WEIGHT, State, hold
from placement_gym.envs.online.plans import PlanTable, ServingPlan
from placement_gym.graph.extract import extract_spec
from placement_gym.graph.parts import separate_parts
from placement_gym.graph.submodels import pipeline_stages
from placement_gym.hardware.machine import register
from placement_gym.models.loading import load
from placement_gym.models.stateful import is_stateful
from placement_gym.models.tensors import read_tensor

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
        done: Future outputs of its stages.
        answer: Those of the model, and seconds since the request arrived.
        arrived_s: When the request arrived.
    """

    plan: CutPlan
    first: int
    inputs: Arrays
    done: list[Future[Arrays]] = field(default_factory=list)
    answer: Future[tuple[Outputs, float]] = field(default_factory=Future)
    arrived_s: float = field(default_factory=perf_counter)

    def finish(self, _: Future[Arrays]) -> None:
        """Answer after the last stage, with the first failure if there is one."""
        try:
            done = [stage.result() for stage in self.done]
        except StageError as error:
            settle(self.answer.set_exception, error)
        else:
            outputs = [done[giver][port] for giver, port in self.plan.outputs]
            settle(self.answer.set_result, (outputs, perf_counter() - self.arrived_s))


class PlanExecutor:
    """Runs requests by plans, and keeps account of what their devices have to do.

    Weights are loaded when a stage needs them, in place of those that were not used for longest
    where a device's limit is reached: loading is compiling. Each device's engine has a process of
    its own: a stage with which it crashes or hangs is tried once more in a new one, and a stage
    that raises, or fails so again, fails its request alone.

    Args:
        plans: Made by solvers, so that each has a placement.
        models: Model by name; what it lacks is built in.
        cores: Core of the processor for each device; None leaves that to the system.

    Raises:
        UserError: A plan has no placement, or a model keeps state.
        PlacementMismatchError: A plan was made for another model.
    """

    def __init__(
        self, plans: PlanTable, models: Mapping[str, Any], cores: Sequence[int] | None = None
    ) -> None:
        import openvino as ov

        register(ov.Core(), plans.devices)  # raises what the engines' processes would
        loaded = [load(models.get(entry.name, entry.name)) for entry in plans.models]
        self.readers = [InputReader(model) for model in loaded]
        self.cuts = [
            [cut(model, plan) for plan in own]
            for model, own in zip(loaded, plans.plans, strict=True)
        ]
        self.lock, self.folder = Lock(), TemporaryDirectory()
        self.took_ms: dict[int, list[float]] = {}
        """Time that loading and running a stage took, the last time."""
        self.engines = [
            Engine(
                spec, Path(self.folder.name, f"{number}.tensors"), cores[number] if cores else None
            )
            for number, spec in enumerate(plans.devices)
        ]
        self.threads = [ThreadPoolExecutor(1, spec.name) for spec in plans.devices]
        for thread, engine in zip(self.threads, self.engines, strict=True):
            thread.submit(engine.start)
        self.use(plans)

    def use(self, plans: PlanTable, gap_ms: float = 0.0) -> None:
        """Begin with no weights, and with requests of all models at a distance.

        Nothing may be queued.

        Args:
            plans: The same, perhaps with other times.
            gap_ms: The expected distance; 0 takes the first one.
        """
        self.plans, self.tables = plans, plans.tables
        n_devices = len(plans.devices)
        self.queued_ms: list[deque[float]] = [deque() for _ in range(n_devices)]
        self.begun_s, self.last_s = np.full(n_devices, np.inf), 0.0
        self.state = State(
            np.zeros(n_devices),
            np.ones(n_devices),
            np.full(len(self.tables.device), -1),
            np.array(plans.shares),
            np.array([gap_ms]),
        )

    def look(self) -> State:
        """The devices as a request arrives; a look for each request."""
        now_s, state = perf_counter(), self.state
        with self.lock:
            if self.last_s:
                gap_ms = (now_s - self.last_s) * 1e3
                old_ms = state.gap_ms[0] or gap_ms
                state.gap_ms[0] = HISTORY_WEIGHT * old_ms + (1.0 - HISTORY_WEIGHT) * gap_ms
            self.last_s = now_s
            done_ms = np.maximum(now_s - self.begun_s, 0.0) * 1e3 / state.pace
            for device, own in enumerate(self.queued_ms):
                state.queue_ms[device] = sum(own) - min(done_ms[device], own[0]) if own else 0.0
            return deepcopy(state)

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
        tables, used, mix = self.tables, self.state.used, self.state.mix
        number = model * tables.allowed.shape[1] + plan
        stages = range(tables.first[number], tables.first[number + 1])
        values = [read_tensor(tensor) for tensor in self.readers[model].read(inputs)]
        job = Job(self.cuts[model][plan], stages.start, values)
        job.answer.set_running_or_notify_cancel()  # what is queued is not cancelled
        with self.lock:
            mix *= HISTORY_WEIGHT
            mix[model] += 1.0 - HISTORY_WEIGHT
            for stage in stages:
                device, absent = tables.device[stage], hold(tables, used, stage)
                held = set(np.flatnonzero(used >= 0).tolist()) - ({stage} if absent else set())
                planned_ms = tables.work_ms[stage] + absent * tables.load_ms[stage]
                self.queued_ms[device].append(planned_ms)
                job.done.append(self.threads[device].submit(self.serve, job, stage, held))
        job.done[-1].add_done_callback(job.finish)
        return job.answer

    def serve(self, job: Job, stage: int, held: set[int]) -> Arrays:
        """Run a stage of a request in its device's thread; returns its outputs.

        Raises:
            StageError: It failed, or one before it.
        """
        position, device = stage - job.first, self.tables.device[stage]
        wait(job.done[:position])
        began_s = self.begun_s[device] = perf_counter()
        try:
            inputs = [
                (job.inputs if giver == WHOLE_MODEL else job.done[giver].result())[port]
                for giver, port in job.plan.sources[position]
            ]
            return self.run(stage, self.write(stage, job.plan.models[position]), held, inputs)
        except Exception as error:
            name = self.plans.devices[device].name
            raise StageError(f"stage {position} on {name}", error) from error
        finally:
            with self.lock:
                planned_ms = self.queued_ms[device].popleft()
                self.begun_s[device], pace = np.inf, self.state.pace
                ratio = (perf_counter() - began_s) * 1e3 / max(planned_ms, 1e-3)
                last = pace[device] + LAST_STAGE_WEIGHT * (ratio - pace[device])
                pace[device] = max(last, 1.0)

    def run(self, stage: int, model: Path, held: set[int], inputs: Arrays) -> Arrays:
        """Run a stage, and keep how long that took."""
        engine, work_ms = self.engines[self.tables.device[stage]], self.tables.work_ms[stage]
        outputs, *self.took_ms[stage] = engine.run(stage, model, held, inputs, work_ms)
        return outputs

    def write(self, stage: int, model: ov.Model) -> Path:
        """The file of a stage's model, written once."""
        import openvino as ov

        file = Path(self.folder.name, f"{stage}.xml")
        if not file.exists():
            ov.serialize(model, file)
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the requests that are queued, and end the threads and processes."""
        for thread, engine in zip(self.threads, self.engines, strict=True):
            thread.shutdown()
            engine.close()
        self.folder.cleanup()


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
