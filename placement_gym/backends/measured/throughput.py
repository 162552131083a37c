"""Throughput: placements run as pipelines, single devices with their best number of streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from math import ceil
from threading import Semaphore
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.failures import EngineFailureError, Kind
from placement_gym.backends.measured.candidate import Compilation, CompiledPlacement, Engine
from placement_gym.backends.measured.device_memory import MemoryWatch, check_held
from placement_gym.backends.measured.outputs import compare_outputs
from placement_gym.backends.measured.timing import Race
from placement_gym.backends.pipeline.executor import StageExecutor
from placement_gym.backends.pipeline.models import ModelPipeline, group_by_model
from placement_gym.backends.pipeline.stage import Stage, compile_stages, count_streams, with_streams
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.errors import CompileError
from placement_gym.hardware.devices import DeviceSpec, usable_cores
from placement_gym.workloads.runs import MAX_TIMES, Beat, Inferences, Inputs, Outputs

if TYPE_CHECKING:
    from concurrent.futures import Future


TUNING_WINDOWS = 2
"""Windows timed for each number of streams and requests of a single device: ours, the fewest from
which ``Race`` has a spread."""
MAX_STREAMS = {"GPU": 2, "NPU": 1}
"""Largest number of streams to time, by kind; devices whose threads are known get up to one a
thread. Ours: each number costs a compilation."""


@dataclass(frozen=True)
class InFlight(Inferences):
    """Several requests, or rounds of a union, in flight; see ``Inferences``.

    In a round each model of a union runs as often as its rate says. A round begins as soon as
    fewer than ``requests`` are unfinished, and its inferences wait only for devices.

    Attributes:
        pipelines: Of each model.
        requests: The maximum number of requests, or rounds, in flight.
        steps: (n_inferences,) inputs of each inference of a request.
        beat: Called as each inference begins.
        window: Results in a sample.
        latencies_ms: (n_models,) times of requests since ``forget``, from being submitted to
            their results, each with ``requests`` rounds in flight.
    """

    pipelines: Sequence[ModelPipeline]
    requests: int
    steps: Sequence[Inputs]
    beat: Beat
    window: int
    latencies_ms: Sequence[deque[float]]

    @classmethod
    def of(
        cls, pipelines: Sequence[ModelPipeline], steps: Sequence[Inputs], beat: Beat, window: int
    ) -> InFlight:
        first = pipelines[0]
        requests = len(first.stages[0].requests) // first.member.rate
        times = [deque[float](maxlen=MAX_TIMES) for _ in pipelines]
        return cls(pipelines, requests, steps, beat, window, times)

    @property
    def stages(self) -> list[Stage]:
        """The stages of all models."""
        return [stage for pipeline in self.pipelines for stage in pipeline.stages]

    @contextmanager
    def execute(self) -> Iterator[list[StageExecutor]]:
        """Start the threads of each model, and end them."""
        with ExitStack() as stack:
            yield [stack.enter_context(pipeline.execute()) for pipeline in self.pipelines]

    def submit(self, executors: Sequence[StageExecutor], number: int) -> Future[Any]:
        """Submit one request of a model."""
        pipeline, executor = self.pipelines[number], executors[number]
        steps = ([inputs[index] for index in pipeline.inputs] for inputs in self.steps)
        return executor.submit_sequence(map(self.begin, steps))

    def begin(self, inputs: Inputs) -> Inputs:
        """The inputs of an inference that is about to begin."""
        self.beat("an inference")
        return inputs

    def list_round(self) -> list[int]:
        """The model of each request of a round, in the order in which they are submitted."""
        rates = [pipeline.member.rate for pipeline in self.pipelines]
        turns = range(max(rates))
        return [number for turn in turns for number, rate in enumerate(rates) if turn < rate]

    def run(self) -> None:
        """Run one round, one request after another."""
        with self.execute() as executors:
            for number in self.list_round():
                self.submit(executors, number).result()

    def outputs(self) -> Outputs:
        """The outputs of one request of each model."""
        with self.execute() as executors:
            futures = [self.submit(executors, number) for number in range(len(self.pipelines))]
            return self.flatten(futures)

    def flatten(self, futures: Sequence[Future[Any]]) -> Outputs:
        """The outputs of a request of each model, those of one inference after another."""
        results = [future.result() for future in futures]
        inferences = zip(*results, strict=True)
        return [array for outputs in inferences for array in chain.from_iterable(outputs)]

    def check(self, limit: float) -> None:
        """Raise ``EngineFailureError`` if results in flight differ by over ``limit`` relative."""
        with self.execute() as executors:
            futures = [
                [self.submit(executors, number) for number in range(len(self.pipelines))]
                for _ in range(2 * self.requests)
            ]
            expected, *outputs = [self.flatten(future) for future in futures]
        for result in outputs:
            difference = compare_outputs(result, expected, limit)
            if difference:
                raise EngineFailureError(Kind.INFEASIBLE, f"requests in flight: {difference}")

    def find_timer(self) -> Callable[[], float]:
        return self.time_window

    def time_window(self) -> float:
        """Milliseconds between two results, or rounds, while ``requests`` are in flight.

        Neither the time until the pipeline is full counts nor that in which it empties.
        So many results are timed as the window has, rounded up to a multiple of ``requests``.
        """
        n_timed = self.requests * ceil(self.window / self.requests)
        slots, ends = Semaphore(self.requests), list[float]()
        futures: list[Future[Any]] = []
        with self.execute() as executors:
            for turn in range(n_timed + 2 * self.requests):
                slots.acquire()
                is_full = self.requests <= turn < self.requests + n_timed
                futures += self.start_round(executors, is_full, ends, slots)
            for future in futures:
                future.result()
        ends.sort()
        first_full = self.requests - 1
        return (ends[first_full + n_timed] - ends[first_full]) / n_timed * 1e3

    def start_round(
        self, executors: Sequence[StageExecutor], is_full: bool, ends: list[float], slots: Semaphore
    ) -> list[Future[Any]]:
        """Submit the requests of a round; its end is noted, and frees a place.

        Args:
            executors: Of each model.
            is_full: Whether the pipeline is full, so that latencies of a union's models count.
            ends: Ends of rounds.
            slots: Places of rounds in flight.
        """
        models = self.list_round()
        finished_requests, record_latency = count(1), is_full and len(self.pipelines) > 1

        def finish(number: int, started: float, _: Future[Any]) -> None:
            now = perf_counter()
            if record_latency:
                self.latencies_ms[number].append((now - started) * 1e3)
            if next(finished_requests) == len(models):
                ends.append(now)
                slots.release()

        futures = []
        for number in models:
            start_s = perf_counter() if record_latency else 0.0
            future = self.submit(executors, number)
            future.add_done_callback(partial(finish, number, start_s))
            futures.append(future)
        return futures

    def models_ms(self) -> tuple[float, ...] | None:
        """(n_models,) median latency of each model of a union, see ``latencies_ms``."""
        if len(self.pipelines) == 1 or not all(self.latencies_ms):
            return None
        return tuple(float(np.median(times)) for times in self.latencies_ms)

    def forget(self) -> None:
        """Forget the latencies so far."""
        for times in self.latencies_ms:
            times.clear()


def time_stages(
    pipelines: Sequence[InFlight], devices: Sequence[DeviceSpec], repeats: int
) -> FloatArray:
    """Run one request of every pipeline in turn, in alternating order, after one that warms up.

    Returns:
        (repeats, n_pipelines, n_devices) ms of each device's stages.
    """
    samples = np.zeros((repeats + 1, len(pipelines), len(devices)))
    for turn in range(repeats + 1):
        order = range(len(pipelines))
        for number in order if turn % 2 == 0 else reversed(order):
            samples[turn, number] = time_devices(pipelines[number], devices)
    return samples[1:]


def time_devices(pipeline: InFlight, devices: Sequence[DeviceSpec]) -> list[float]:
    """(n_devices,) ms of each device's stages in a request that has the pipeline to itself.

    Of a device in the host's memory it is the processor time of the thread that submits, which
    takes part in the work: waiting for a core that others use does not count.
    """
    host = {spec.name: spec.host for spec in devices}

    def spent_s(stage: Stage) -> float:
        return stage.processor_s if host[stage.device] else stage.busy_s

    spent_before = [spent_s(stage) for stage in pipeline.stages]
    pipeline.run()
    ms = dict.fromkeys(host, 0.0)
    for stage, already_s in zip(pipeline.stages, spent_before, strict=True):
        ms[stage.device] += 1e3 * (spent_s(stage) - already_s)
    return list(ms.values())


class PipelineCompiler:
    """Compiles placements as pipelines."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.problem = engine, engine.problem
        self.best: dict[int, tuple[int, int]] = {}

    def compile(self, assignment: IntArray, requests: int | None, window: int) -> CompiledPlacement:
        """Compile a placement, run it with all requests in flight and compare their outputs.

        Args:
            assignment: (n_units,) device indices.
            requests: In flight, of a placement on several devices; None is one more than stages.
            window: Results in a sample.
        """
        start_s = perf_counter()
        devices = sorted(set(assignment.tolist()))
        watch = MemoryWatch.start(
            self.engine.core,
            tuple(
                (spec.name,) if device in devices else ()
                for device, spec in enumerate(self.problem.devices)
            ),
        )
        if len(devices) == 1:
            in_flight, streams = self.compile_alone(devices[0], window)
        else:
            specs = self.problem.devices
            in_flight = self.build(assignment, specs, requests, window)
            streams = max(count_streams(specs[device]) for device in devices)
        compile_s = perf_counter() - start_s
        in_flight.check(self.engine.tolerance)
        memory_bytes = tuple(self.problem.memory_bytes(assignment).tolist())
        held_bytes = watch.held_bytes()
        check_held(self.problem, memory_bytes, held_bytes)
        return CompiledPlacement(
            in_flight,
            Compilation(
                len(in_flight.stages),
                len(in_flight.stages),
                *self.problem.traffic(assignment),
                memory_bytes,
                compile_s,
                held_bytes,
                requests=in_flight.requests,
                streams=streams,
            ),
        )

    def build(
        self,
        assignment: IntArray,
        specs: Sequence[DeviceSpec],
        requests: int | None,
        window: int = 1,
    ) -> InFlight:
        engine, units, beat = self.engine, self.problem.units, self.engine.reporter.beat
        beat("compiling")
        stages, ports = compile_stages(
            engine.core, engine.model, units.graph, assignment[units.of_operator], specs, requests
        )
        pipelines = group_by_model(engine.model, units.graph, stages, ports)
        return InFlight.of(pipelines, engine.steps, beat, window)

    def compile_alone(self, device: int, window: int) -> tuple[InFlight, int]:
        """Compile a single device with its best number of streams and requests.

        Returns:
            The pipeline, and its number of streams.
        """
        if device not in self.best:
            self.best[device] = self.find_best(device, window)
        streams, requests = self.best[device]
        return self.build_alone(device, streams, requests, window), streams

    def find_best(self, device: int, window: int) -> tuple[int, int]:
        """Find the best number of streams, and of requests: as many or twice as many."""
        options: dict[tuple[int, int], InFlight] = {}
        for streams in list_streams(self.problem.devices[device]):
            for requests in (streams, 2 * streams):
                try:
                    options[streams, requests] = self.build_alone(device, streams, requests, window)
                except CompileError:
                    if not options:
                        raise
        for pipeline in options.values():
            pipeline.run()
        race = Race(len(options))
        race.run([pipeline.time_window for pipeline in options.values()], TUNING_WINDOWS)
        return list(options)[max(race.live, key=race.speedup)]

    def build_alone(self, device: int, streams: int, requests: int, window: int) -> InFlight:
        """A device alone, with these streams and requests."""
        specs = list(self.problem.devices)
        specs[device] = with_streams(specs[device], streams)
        return self.build(self.problem.single(device), specs, requests, window)


def list_streams(spec: DeviceSpec) -> list[int]:
    """List the numbers of streams to time on a device: powers of two, or the stated number."""
    if "NUM_STREAMS" in spec.properties:
        return [count_streams(spec)]
    maximum = MAX_STREAMS.get(spec.kind, spec.threads or usable_cores())
    return [*(2**power for power in range(maximum.bit_length()) if 2**power < maximum), maximum]
