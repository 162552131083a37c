"""The arms of ``throughput_measured.py``: one plan and its rivals, compiled and timed in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from time import perf_counter, process_time, thread_time
from typing import Any

import numpy as np
import openvino as ov

from placement_gym.backends.measured.hetero import HeteroPartition, compile_partition
from placement_gym.backends.measured.in_process import MeasuredBackend
from placement_gym.backends.measured.throughput import InFlight
from placement_gym.backends.pipeline.models import group_by_model
from placement_gym.backends.pipeline.stage import Stage, compile_stages
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.hardware.devices import PRESETS, DeviceSpec
from placement_gym.hardware.machine import register

PAIR = PRESETS["cpu-testbed-pair"]
PINNED = tuple(replace(spec, properties={"ENABLE_CPU_PINNING": True}) for spec in PAIR)
WHOLE = DeviceSpec("CPU_WHOLE", plugin="CPU", threads=2, properties={"NUM_STREAMS": 2})
BEST = "one device, two streams"
"""The rival of the plan: both cores, each with a stream."""
Arm = Callable[[], float]
ROUNDS, WINDOW, REPEATS = 6, 8, 20
"""Windows of each compilation, results of a window, and requests for processor times."""


class Arms:
    """Compiles every arm of a model once.

    Args:
        backend: Of the model on ``PAIR``.
        split: (n_units,) the plan.
    """

    def __init__(self, backend: MeasuredBackend, split: IntArray) -> None:
        self.backend = backend
        self.graph = backend.problem.units.graph
        self.split = split[backend.problem.units.of_operator]
        register(backend.core, [*PAIR, WHOLE])

    def compile(self) -> dict[str, Arm]:
        """Name -> what times one window of it, in ms a result."""
        alone = np.zeros(len(self.graph), dtype=np.int64)
        found: dict[str, Arm] = {
            "one device, one thread": self.pipeline(alone, PAIR[:1], 2, 2),
            BEST: self.pipeline(alone, [WHOLE], 2, 2),
            f"{BEST}, 4 requests": self.pipeline(alone, [WHOLE], 4, 4),
            "Pipeline, 2 in flight": self.pipeline(self.split, PAIR, 2),
            "Pipeline, 3 in flight": self.pipeline(self.split, PAIR, 3),
        }
        if self.backend.request.separable:
            found["HETERO queue, 2 in flight"] = self.queue(PAIR, 2)
            found["HETERO queue, 2 in flight, pinned"] = self.queue(PINNED, 2)
        return found

    def processor_ms(self) -> tuple[float, list[float]]:
        """Median processor time of a request on one thread, and in each stage of the plan.

        One-thread devices compute in the thread that asks, so that it is the same whatever else the
        machine does, but for its caches.
        """
        alone = self.in_flight(np.zeros_like(self.split), PAIR[:1], 1)
        plan = self.in_flight(self.split, PAIR, 1)
        spent: dict[str, list[float]] = {}
        for number, one in enumerate((alone, plan)):
            for stage in one.stages:
                spent[f"{number} {stage.name}"] = []
                stage.run = count_processor_time(stage, spent[f"{number} {stage.name}"])
        for _ in range(REPEATS):
            for one in (alone, plan):
                for times in spent.values():
                    times.append(0.0)
                one.run()
        whole, *stages = (
            1e3 * float(np.median([seconds for seconds in times if seconds]))
            for times in spent.values()
        )
        return whole, stages

    def pipeline(
        self, placed: IntArray, specs: Sequence[DeviceSpec], requests: int, workers: int = 1
    ) -> Arm:
        in_flight = self.in_flight(placed, specs, requests)
        for stage in in_flight.stages:
            stage.workers = workers
        return in_flight.time_window

    def in_flight(self, placed: IntArray, specs: Sequence[DeviceSpec], requests: int) -> InFlight:
        backend = self.backend
        stages, ports = compile_stages(
            backend.core, backend.model, self.graph, placed, specs, requests
        )
        pipelines = group_by_model(backend.model, self.graph, stages, ports)
        found = InFlight.of(pipelines, backend.steps, lambda step: None, WINDOW)
        found.check(backend.tolerance)
        return found

    def queue(self, specs: Sequence[DeviceSpec], requests: int) -> Arm:
        """HETERO's own submodels, and OpenVINO's own queue of requests."""
        backend = self.backend
        partition = HeteroPartition.of(self.graph, self.split, specs, alias=False)
        compiled = compile_partition(backend.core, backend.model, self.graph, partition)
        inputs = dict(enumerate(backend.steps[0]))
        timed = requests * ceil(WINDOW / requests)

        def time_window() -> float:
            ends: list[float] = []
            queue = ov.AsyncInferQueue(compiled, requests)
            queue.set_callback(lambda *_: ends.append(perf_counter()))
            for _ in range(timed + 2 * requests):
                queue.start_async(inputs)
            queue.wait_all()
            ends.sort()
            return (ends[requests - 1 + timed] - ends[requests - 1]) / timed * 1e3

        return time_window


def count_processor_time(stage: Stage, spent: list[float]) -> Callable[..., None]:
    """``stage.run``, which adds the seconds of its thread to the last entry of ``spent``."""
    run = stage.run

    def counted(*arguments: Any) -> None:
        started = thread_time()
        run(*arguments)
        spent[-1] += thread_time() - started

    return counted


def measure(arms: Arms, compilations: int) -> tuple[list[str], FloatArray]:
    """Names of the arms, and (n_arms, compilations, ROUNDS, 2) samples."""
    samples = []
    for number in range(compilations):
        compiled = arms.compile()
        for arm in compiled.values():
            arm()
        with arms.backend.lock():
            samples.append(time_in_turn(list(compiled.values())))
        print(f"{number + 1} of {compilations} compilations", flush=True)
    return list(compiled), np.stack(samples, axis=1)


def time_in_turn(arms: Sequence[Arm]) -> FloatArray:
    """(n_arms, ROUNDS, 2) ms a result, and cores that the process kept busy, in alternating order.

    What others do on the machine slows all arms alike; cores tell whether stages overlapped.
    """
    samples = np.empty((len(arms), ROUNDS, 2))
    for round_ in range(ROUNDS):
        for index in range(len(arms)) if round_ % 2 == 0 else reversed(range(len(arms))):
            wall_s, cpu_s = perf_counter(), process_time()
            ms = arms[index]()
            wall_s, cpu_s = perf_counter() - wall_s, process_time() - cpu_s
            samples[index, round_] = ms, cpu_s / wall_s
    return samples
