"""Requests a second on two one-thread CPU devices: a split, and what it has to beat.

    python benchmarks/throughput_measured.py --model resnet --rows rows.jsonl
    python benchmarks/throughput_measured.py --model gpt --scenario chat-16-8 --rows rows.jsonl
    python benchmarks/throughput_measured.py --model resnet:2 bert-8 --rows rows.jsonl

The split is the exact contiguous one of a quick profile. Arms are compiled three times and timed in
turns; adds a row for each arm. Rates of tables are medians of compilations and windows; ± is half
of the 95 % interval of a median ratio.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from common import Row, append_row, describe_placement, make_parser
from summaries import Tables

from placement_gym.backends.measured import MeasuredBackend, build_measured_backend, load_or_measure
from placement_gym.backends.measured.in_flight import InFlight
from placement_gym.backends.measured.throughput import ThroughputCompiler
from placement_gym.backends.measured.worker import Worker
from placement_gym.base import FloatArray, IntArray
from placement_gym.bench.run.provenance import origin
from placement_gym.hardware import PRESETS, DeviceSpec
from placement_gym.models import ModelSpec
from placement_gym.solvers.pipelines import exact_pipeline

PAIR = PRESETS["cpu-testbed-pair"]
BOTH_CORES = replace(PAIR[0], threads=2, properties={"NUM_STREAMS": 2})
"""The first device with both cores, each a stream."""
BEST = "one device, two streams"
"""The rival of a split."""
N_COMPILATIONS, N_ROUNDS, WINDOW = 3, 6, 8
"""Compilations of each arm, windows of each compilation, and results of a window."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, default=Path("rows.jsonl"), help="%(default)s")
    parser.add_argument("--model", nargs="+", default=["resnet"], help="one, or several at once")
    parser.add_argument("--scenario", help="of a model with state, as in chat-16-8")
    options = parser.parse_args()
    for row in measure_arms(options):
        append_row(options.rows, row)


def measure_arms(options: Namespace) -> list[Row]:
    """The rows of a model."""
    spec = ModelSpec(options.model, "fused", scenario=options.scenario)
    backend: Any = build_measured_backend(spec, PAIR, isolate=False)
    worker = backend.engine.worker
    split = exact_pipeline(backend.problem, load_or_measure(backend, quick=True))
    samples, arms = [], list[str]()
    for number in range(N_COMPILATIONS):
        compiled = compile_arms(worker, split)
        arms = list(compiled)
        for arm in compiled.values():
            arm.run()
        with worker.lock():
            samples.append(time_in_turns(list(compiled.values())))
        print(f"{number + 1} of {N_COMPILATIONS} compilations", flush=True)
    return summarize(arms, np.stack(samples, axis=1), describe_run(backend, split, options))


def compile_arms(worker: Worker, split: IntArray) -> dict[str, InFlight]:
    """Every arm by its name."""
    compiler, problem = ThroughputCompiler(worker), worker.problem

    def compile_arm(
        assignment: IntArray, requests: int, specs: Sequence[DeviceSpec] = PAIR
    ) -> InFlight:
        partition = compiler.divide(assignment, specs)
        models = compiler.compile_models(assignment, specs, partition)
        return compiler.create_requests(models, requests, WINDOW)

    alone = problem.single(0)
    pinned = [replace(spec, properties={"ENABLE_CPU_PINNING": True}) for spec in PAIR]
    arms = {
        "one device, one thread": compile_arm(alone, 2),
        BEST: compile_arm(alone, 2, [BOTH_CORES, PAIR[1]]),
        f"{BEST}, 4 requests": compile_arm(alone, 4, [BOTH_CORES, PAIR[1]]),
        "split, 2 in flight": compile_arm(split, 2),
        "split, 3 in flight": compile_arm(split, 3),
        "split, 2 in flight, pinned": compile_arm(split, 2, pinned),
    }
    if problem.units.graph.models:
        arms["whole models, 2 in flight"] = compile_arm(place_whole_models(worker), 2)
    return arms


def place_whole_models(worker: Worker) -> IntArray:
    """The first model of a union on the first device, the others on the second."""
    units = worker.problem.units
    model = np.zeros(len(units), dtype=np.int64)
    model[units.of_operator] = units.graph.model_of
    return np.minimum(model, 1)


def time_in_turns(arms: Sequence[InFlight]) -> FloatArray:
    """(n_arms, N_ROUNDS, 2) ms a result, and cores that were busy, in alternating order.

    What others do on the machine slows all arms alike; cores show whether devices overlapped.
    """
    samples = np.empty((len(arms), N_ROUNDS, 2))
    for round_ in range(N_ROUNDS):
        for index in range(len(arms)) if round_ % 2 == 0 else reversed(range(len(arms))):
            wall_s, cpu_s = perf_counter(), process_time()
            ms = arms[index].time_window()
            wall_s, cpu_s = perf_counter() - wall_s, process_time() - cpu_s
            samples[index, round_] = ms, cpu_s / wall_s
    return samples


def describe_run(backend: MeasuredBackend, split: IntArray, options: Namespace) -> Row:
    """The fields that all rows of a model share."""
    asked = {
        "model": options.model if len(options.model) > 1 else options.model[0],
        "scenario": options.scenario,
        "devices": [spec.to_json() for spec in PAIR],
        "granularity": "fused",
        "objective": "throughput",
    }
    return origin() | {
        "agent": "dp",
        "kwargs": {},
        "env": "DevicePlacement-v0",
        "env_kwargs": asked,
        "seed": 0,
        "budget": 1,
        "curve": [],
        "placement": describe_placement(backend.problem, split),
        "model": backend.problem.units.graph.model,
        "scenario": options.scenario,
        "cpu_s": round(process_time(), 1),
    }


def summarize(names: Sequence[str], samples: FloatArray, facts: Mapping[str, Any]) -> list[Row]:
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


def list_rates(model: str, rows: Sequence[Row]) -> list[Row]:
    """Requests a second of each arm of a model."""
    return [
        {
            model: row["arm"],
            "requests a second": f"{row['requests_per_s']:.1f}",
            "cores in use": f"{row['cores']:.2f}",
            "x one thread": describe_ratio(row["ratio_to_one_thread"], row["noise_to_one_thread"]),
            "x two streams": describe_ratio(row["ratio_to_two_streams"], row["noise"]),
        }
        for row in rows
        if row["model"] == model
    ]


def describe_ratio(ratio: float, noise: float) -> str:
    """A ratio with its interval; an arm's to itself has none."""
    return f"{ratio:.2f} ± {noise:.2f}" if noise else f"{ratio:.2f}"


TABLES: Tables = {
    "resnet": partial(list_rates, "resnet"),
    "gpt": partial(list_rates, "gpt"),
    "resnet:2+bert-8": partial(list_rates, "resnet:2+bert-8"),
}
"""Model -> the table."""


if __name__ == "__main__":
    main()
