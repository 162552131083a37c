"""Requests a second: a plan of two stages on two one-thread CPU devices against one device.

    python benchmarks/throughput_measured.py rates --model resnet --rows rows.jsonl
    python benchmarks/throughput_measured.py tables --rows throughput-measured-rows.jsonl
    python benchmarks/throughput_measured.py overlap --model resnet --results 8

``rates`` measures a plan by processor time and by the clock, and adds its rows to the file;
``tables`` prints rows. ``overlap`` asks whether stages of different requests overlap: it samples
the threads that want a core as requests run. What else the machine does slows them but hardly
changes how many there are, unlike rates.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from threading import Event, Thread, get_native_id
from time import perf_counter, process_time, thread_time
from typing import Any

import numpy as np
import openvino as ov
from common import Row, append_row, group_by, make_parser, print_table, read_rows

from placement_gym.backends.measured.assembly import build_measured_backend
from placement_gym.backends.measured.hetero import HeteroPartition, compile_partition
from placement_gym.backends.measured.in_process import MeasuredBackend
from placement_gym.backends.measured.kept_profiles import load_or_measure
from placement_gym.backends.measured.throughput import InFlight
from placement_gym.backends.measured.timing_protocol import FOR_FITTING
from placement_gym.backends.pipeline.executor import StageExecutor
from placement_gym.backends.pipeline.inputs import InputReader
from placement_gym.backends.pipeline.models import group_by_model
from placement_gym.backends.pipeline.stage import Stage, compile_stages
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.graph.extract import extract
from placement_gym.hardware.device_requests import resolve_devices
from placement_gym.hardware.devices import PRESETS, DeviceSpec
from placement_gym.hardware.machine import register
from placement_gym.models import load
from placement_gym.models.spec import ModelSpec
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.pipelines.pipeline import exact_pipeline, find_largest_load_ms
from placement_gym.workloads.samples import sample_inputs

PAIR = PRESETS["cpu-testbed-pair"]
PINNED = tuple(replace(spec, properties={"ENABLE_CPU_PINNING": True}) for spec in PAIR)
WHOLE = DeviceSpec("CPU_WHOLE", plugin="CPU", threads=2, properties={"NUM_STREAMS": 2})
BEST = "one device, two streams"
"""The rival of the plan: both cores, each with a stream."""
Arm = Callable[[], float]
ROUNDS, WINDOW, REPEATS = 6, 8, 20
"""Windows of each compilation, results of a window, and requests for processor times."""
PERIOD_S = 0.003
"""Between two samples of threads."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("command", choices=("rates", "tables", "overlap"))
    parser.add_argument("--rows", type=Path, help="file of rows, .jsonl")
    parser.add_argument("--model", default="resnet")
    parser.add_argument("--scenario", help="of a model with state, as in chat-16-8")
    parser.add_argument("--compilations", type=int, default=3, help="0: processor times alone")
    parser.add_argument("--results", type=int, default=12, help="of each arm of overlap")
    options = parser.parse_args()
    if options.command == "tables":
        show(read_rows(options.rows))
    elif options.command == "overlap":
        sample_overlap(options.model, options.results)
    else:
        rows = measure_rates(options)
        show(rows)
        for row in rows if options.rows else ():
            append_row(options.rows, row)


def measure_rates(options: argparse.Namespace) -> list[Row]:
    """Predict the plan's gain, measure it by processor time and by the clock; returns the rows."""
    backend: Any = build_measured_backend(
        ModelSpec(options.model, "fused", scenario=options.scenario),
        resolve_devices(PAIR, "measured"),
        isolate=False,
    )
    protocol = replace(FOR_FITTING, objective="throughput")
    profile = load_or_measure(backend.with_protocol(FOR_FITTING), quick=True)
    costs = load_or_measure(backend.with_protocol(protocol), quick=True)
    problem = backend.problem
    plain = predict(problem, profile, exact_pipeline(problem, profile))
    split = exact_pipeline(problem, costs)
    alone_ms, load_ms = predict(problem, costs, split)
    arms = Arms(backend, split)
    whole_ms, stages_ms = arms.processor_ms()
    facts = {
        "model": options.model,
        "scenario": options.scenario,
        "stage_ms": costs.submodel_ms.tolist(),
        "predicted_without_stages": plain[0] / plain[1],
        "predicted_alone_ms": alone_ms,
        "predicted_plan_ms": load_ms,
        "processor_alone_ms": whole_ms,
        "processor_stages_ms": stages_ms,
    }
    if not options.compilations:
        return [facts]
    return summarize(*measure(arms, options.compilations), facts)


def predict(problem: Problem, costs: CostTable, split: IntArray) -> tuple[float, float]:
    """Milliseconds a result on the first device alone, and under a plan."""
    alone, plan = (
        find_largest_load_ms(problem, costs, placed) for placed in (problem.single(0), split)
    )
    return alone, plan


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


def summarize(names: Sequence[str], samples: FloatArray, facts: Row) -> list[Row]:
    """A row for each arm."""
    ms, cores = samples[..., :1], samples[..., 1]
    alone, best = ms[0], ms[names.index(BEST)]
    return [
        {
            **facts,
            "arm": name,
            "requests_per_s": 1e3 / float(np.median(times)),
            "cores": float(np.median(busy)),
            "ratio_to_one_thread": ratio(alone, times),
            "noise_to_one_thread": noise(alone, times),
            "ratio_to_two_streams": ratio(best, times),
            "noise": noise(best, times),
            "ms": times[..., 0].tolist(),
        }
        for name, times, busy in zip(names, ms, cores, strict=True)
    ]


def ratio(reference: FloatArray, candidate: FloatArray) -> float:
    """Median over rounds of the ratio of rates, each round interleaved."""
    return float(np.median(reference / candidate))


def noise(reference: FloatArray, candidate: FloatArray) -> float:
    """Half-width of its 95 % interval, by resampling the rounds."""
    ratios = (reference / candidate).ravel()
    drawn = np.random.default_rng(0).choice(ratios, (2000, len(ratios)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(high - low) / 2


def show(rows: Sequence[Row]) -> None:
    """Print what is predicted and measured of each plan, and the rates of its arms."""
    described = [row | {"facts": describe_plan(row)} for row in rows]
    for (facts,), mine in group_by(described, "facts").items():
        print(facts)
        print_table(
            {
                "arm": row["arm"],
                "a second": f"{row['requests_per_s']:.2f}",
                "cores": f"{row['cores']:.2f}",
                "x one thread": f"{row['ratio_to_one_thread']:.2f}",
                "+-": f"{row['noise_to_one_thread']:.2f}",
                "x two streams": f"{row['ratio_to_two_streams']:.2f} +- {row['noise']:.2f}",
            }
            for row in mine
            if "arm" in row
        )


def describe_plan(row: Row) -> str:
    """Predicted gains of a plan, and what processor time says; earlier rows lack some of it."""
    alone_ms, plan_ms = row["predicted_alone_ms"], row["predicted_plan_ms"]
    text = f"{row['model']}: predicted ratio {alone_ms / plan_ms:.2f}"
    if "stage_ms" in row:
        costs = ", ".join(f"{ms:.2f}" for ms in row["stage_ms"])
        text += f", {row['predicted_without_stages']:.2f} without the stages' costs, {costs} ms"
    if "processor_stages_ms" in row:
        alone_ms, stages = row["processor_alone_ms"], row["processor_stages_ms"]
        each = " + ".join(f"{ms:.2f}" for ms in stages)
        text += (
            f"; by processor time {alone_ms:.2f} ms, stages {each}, {alone_ms / max(stages):.2f}"
        )
    return text


def sample_overlap(name: str, n_results: int) -> None:
    """Print how many threads want a core while HETERO's queue and ``Pipeline`` serve requests."""
    model = load(name)
    graph = extract(model, "folded", None)
    half = (graph.flops.cumsum() > graph.flops.sum() / 2).astype(np.int64)
    inputs = dict(enumerate(sample_inputs(model)))
    core = ov.Core()

    def run_queue(queue: ov.AsyncInferQueue) -> None:
        for _ in range(n_results):
            queue.start_async(inputs)
        queue.wait_all()

    def run_pipeline(executor: StageExecutor) -> None:
        for _ in executor.map([inputs] * n_results):
            pass

    for specs, pinned in ((PAIR, ""), (PINNED, ", pinned")):
        partition = HeteroPartition.of(graph, half, specs, alias=False)
        compiled = compile_partition(core, model, graph, partition)
        for requests in (1, 2, 3):
            run = partial(run_queue, ov.AsyncInferQueue(compiled, requests))
            show_threads(f"HETERO queue, {requests} in flight{pinned}", run)
    for requests in (1, 2, 3):
        stages, ports = compile_stages(core, model, graph, half, PAIR, requests)
        with StageExecutor(stages, ports, InputReader(model)) as executor:
            show_threads(f"Pipeline, {requests} in flight", partial(run_pipeline, executor))


def show_threads(name: str, run: Callable[[], None]) -> None:
    """Print how many threads want a core while requests run once more."""
    run()
    stop, found = Event(), list[int]()
    sampler = Thread(target=sample_threads, args=(stop, found))
    sampler.start()
    run()
    stop.set()
    sampler.join()
    threads = np.array(found)
    print(
        f"{name:40s} {threads.mean():.2f} threads want a core, two or more "
        f"{np.mean(threads >= 2):4.0%} of the time ({len(threads)} samples)",
        flush=True,
    )


def sample_threads(stop: Event, found: list[int]) -> None:
    """Append how many threads want a core.

    The sampler's own thread and the main one, which submits, are left out.
    """
    others = {get_native_id(), os.getpid()}
    while not stop.wait(PERIOD_S):
        wanting = 0
        for folder in Path("/proc/self/task").iterdir():
            thread = int(folder.name)
            with suppress(OSError):
                stat = (folder / "stat").read_text()
                if thread not in others and stat.rpartition(")")[2].split()[0] == "R":
                    wanting += 1
        found.append(wanting)


if __name__ == "__main__":
    main()
