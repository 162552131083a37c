"""Throughput: placements run as pipelines, single devices with the streams that suit them best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.failures import EngineFailureError, Kind
from placement_gym.backends.measured.candidate import Compilation, CompiledPlacement, Engine
from placement_gym.backends.measured.inferences import Beat, Inferences, Inputs, Outputs
from placement_gym.backends.measured.outputs import compare_outputs
from placement_gym.backends.measured.timing import Race
from placement_gym.backends.pipeline.cutting import Port
from placement_gym.backends.pipeline.executor import StageExecutor
from placement_gym.backends.pipeline.inputs import InputReader
from placement_gym.backends.pipeline.stage import Stage, compile_stages, count_streams, with_streams
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.errors import CompileError
from placement_gym.hardware.devices import DeviceSpec, usable_cores

if TYPE_CHECKING:
    from concurrent.futures import Future


TUNING_WINDOWS = 2
"""Windows of each number of streams and requests that a single device is tried with."""
MAX_STREAMS = {"GPU": 2, "NPU": 1}
"""Of a device whose threads are not ours to count."""


@dataclass(frozen=True)
class InFlight(Inferences):
    """Several requests of a placement in flight; see ``Inferences``.

    Attributes:
        stages: Of the placement.
        ports: (n_outputs,) the stage and its output that each output of the model is.
        reader: Reads the inputs of the model.
        steps: (n_inferences,) inputs of each inference of a request; several with state.
        stateful: Whether the model keeps state.
        beat: Called as each inference begins.
    """

    stages: Sequence[Stage]
    ports: Sequence[Port]
    reader: InputReader
    steps: Sequence[Inputs]
    stateful: bool
    beat: Beat

    @property
    def requests(self) -> int:
        """The maximum number of requests in flight."""
        return len(self.stages[0].requests)

    def execute(self) -> StageExecutor:
        return StageExecutor(self.stages, self.ports, self.reader, self.stateful)

    def submit(self, executor: StageExecutor) -> Future[Any]:
        if self.stateful:
            return executor.submit_sequence(map(self.begin, self.steps))
        return executor.submit(self.begin(self.steps[0]))

    def begin(self, inputs: Inputs) -> Inputs:
        """The inputs of an inference that is about to begin."""
        self.beat("an inference")
        return inputs

    def run(self) -> None:
        """Run one request."""
        with self.execute() as executor:
            self.submit(executor).result()

    def outputs(self) -> Outputs:
        """Those of one request."""
        with self.execute() as executor:
            return self.flatten(self.submit(executor))

    def flatten(self, future: Future[Any]) -> Outputs:
        found = future.result()
        return [array for step in found for array in step] if self.stateful else list(found)

    def check(self, limit: float) -> None:
        """Raise ``EngineFailureError`` if results in flight differ by over ``limit`` relative."""
        with self.execute() as executor:
            futures = [self.submit(executor) for _ in range(2 * self.requests)]
            first, *others = [self.flatten(future) for future in futures]
        for other in others:
            difference = compare_outputs(other, first, limit)
            if difference:
                raise EngineFailureError(Kind.INFEASIBLE, f"requests in flight: {difference}")

    def time_window(self, window: int) -> float:
        """Milliseconds between two results while ``requests`` are in flight.

        Neither the time until the pipeline is full counts nor that in which it empties.

        Args:
            window: Results that are timed, rounded up to a multiple of ``requests``.
        """
        timed = self.requests * ceil(window / self.requests)
        ends: list[float] = []
        with self.execute() as executor:
            futures = []
            for _ in range(timed + 2 * self.requests):
                future = self.submit(executor)
                future.add_done_callback(lambda _: ends.append(perf_counter()))
                futures.append(future)
            for future in futures:
                future.result()
        ends.sort()
        first = self.requests - 1
        return (ends[first + timed] - ends[first]) / timed * 1e3


def time_stages(
    pipelines: Sequence[InFlight], devices: Sequence[DeviceSpec], repeats: int
) -> FloatArray:
    """Run one request of every pipeline in turn, in alternating order, after one that warms up.

    Args:
        pipelines: One for each placement.
        devices: All devices.
        repeats: Requests of each pipeline that count.

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

    before = [spent_s(stage) for stage in pipeline.stages]
    pipeline.run()
    ms = dict.fromkeys(host, 0.0)
    for stage, already_s in zip(pipeline.stages, before, strict=True):
        ms[stage.device] += 1e3 * (spent_s(stage) - already_s)
    return list(ms.values())


class PipelineCompiler:
    """Compiles placements as pipelines."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.problem = engine, engine.problem
        self.reader = InputReader(engine.model)
        self.best: dict[int, tuple[int, int]] = {}

    def compile(self, assignment: IntArray, requests: int | None, window: int) -> CompiledPlacement:
        """Compile a placement, run it with all requests in flight and compare their outputs.

        Args:
            assignment: (n_units,) device indices.
            requests: In flight, of a placement on several devices; None is one more than stages.
            window: Results timed at a stretch, where the best streams have to be found.
        """
        started = perf_counter()
        devices = sorted(set(assignment.tolist()))
        if len(devices) == 1:
            in_flight, streams = self.compile_alone(devices[0], window)
        else:
            specs = self.problem.devices
            in_flight = self.build(assignment, specs, requests)
            streams = max(count_streams(specs[device]) for device in devices)
        compile_s = perf_counter() - started
        in_flight.check(self.engine.tolerance)
        return CompiledPlacement(
            in_flight,
            Compilation(
                len(in_flight.stages),
                len(in_flight.stages),
                *self.problem.traffic(assignment),
                tuple(self.problem.memory_bytes(assignment).tolist()),
                compile_s,
                requests=in_flight.requests,
                streams=streams,
            ),
        )

    def build(
        self, assignment: IntArray, specs: Sequence[DeviceSpec], requests: int | None
    ) -> InFlight:
        engine, units, beat = self.engine, self.problem.units, self.engine.reporter.beat
        beat("compiling")
        stages, ports = compile_stages(
            engine.core, engine.model, units.graph, assignment[units.of_operator], specs, requests
        )
        return InFlight(stages, ports, self.reader, engine.steps, engine.stateful, beat)

    def compile_alone(self, device: int, window: int) -> tuple[InFlight, int]:
        """A device alone with the streams and requests that give it most results a second.

        Returns:
            It; and its number of streams.
        """
        if device not in self.best:
            self.best[device] = self.find_best(device, window)
        streams, requests = self.best[device]
        return self.build_alone(device, streams, requests), streams

    def find_best(self, device: int, window: int) -> tuple[int, int]:
        """The best of ``list_streams``, each with as many requests and with twice as many."""
        options: dict[tuple[int, int], InFlight] = {}
        for streams in list_streams(self.problem.devices[device]):
            for requests in (streams, 2 * streams):
                try:
                    options[streams, requests] = self.build_alone(device, streams, requests)
                except CompileError:
                    if not options:
                        raise
        for one in options.values():
            one.run()
        race = Race(len(options))
        race.run([partial(one.time_window, window) for one in options.values()], TUNING_WINDOWS)
        return list(options)[max(race.live, key=race.speedup)]

    def build_alone(self, device: int, streams: int, requests: int) -> InFlight:
        """A device alone, with these streams and requests."""
        specs = list(self.problem.devices)
        specs[device] = with_streams(specs[device], streams)
        return self.build(self.problem.single(device), specs, requests)


def list_streams(spec: DeviceSpec) -> list[int]:
    """Numbers of streams to try a device with: powers of two, or the one that it states."""
    if "NUM_STREAMS" in spec.properties:
        return [count_streams(spec)]
    most = MAX_STREAMS.get(spec.kind, spec.threads or usable_cores())
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]
