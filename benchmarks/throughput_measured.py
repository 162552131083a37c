"""Requests a second on two one-thread CPU devices: a split, and what it has to beat.

    python benchmarks/throughput_measured.py --rows rows.jsonl
    python benchmarks/throughput_measured.py --rows rows.jsonl --only model=resnet

The split is the exact contiguous one of a quick profile. Arms are compiled three times and timed in
turns; each gets a row. Rates are medians over compilations and windows; ± is half of the 95 %
interval of a median ratio.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
from common import Row, describe_placement, run_benchmark
from summaries import Tables

from placement_gym.backends.measured import build_measured_backend, load_or_measure
from placement_gym.backends.measured.in_flight import InFlight
from placement_gym.backends.measured.throughput import ThroughputCompiler
from placement_gym.backends.measured.worker import Worker
from placement_gym.base import FloatArray, IntArray
from placement_gym.hardware import PRESETS, DeviceSpec
from placement_gym.models import ModelSpec
from placement_gym.solvers.pipelines import exact_pipeline

PAIR = PRESETS["cpu-testbed-pair"]
BOTH_CORES = replace(PAIR[0], threads=2, properties={"NUM_STREAMS": 2})
"""The first device with a stream on each core."""
BEST = "one device, two streams"
"""The arm that a split has to beat."""
N_COMPILATIONS, N_ROUNDS, WINDOW = 3, 6, 8
"""Compilations of each arm, windows of each compilation, and results of a window."""
MODELS = {"resnet": None, "gpt": "chat-16-8", "resnet:2+bert-8": None}
"""Model, or several joined by ``+`` -> scenario."""


def list_jobs() -> Iterator[Row]:
    return ({"model": model, "scenario": scenario} for model, scenario in MODELS.items())


def measure(model: str, scenario: str | None) -> list[Row]:
    names = model.split("+")
    spec = ModelSpec(names, "fused", scenario=scenario)
    backend: Any = build_measured_backend(spec, PAIR, isolate=False)
    worker = backend.engine
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
    facts = {
        "agent": "dp",
        "kwargs": {},
        "env": "DevicePlacement-v0",
        "env_kwargs": {
            "model": names if len(names) > 1 else model,
            "scenario": scenario,
            "devices": [spec.to_json() for spec in PAIR],
            "granularity": "fused",
            "objective": "throughput",
        },
        "seed": 0,
        "budget": 1,
        "curve": [],
        "placement": describe_placement(backend.problem, split),
        "cpu_s": round(process_time(), 1),
    }
    return [facts | row for row in summarize(arms, np.stack(samples, axis=1))]


def compile_arms(worker: Worker, split: IntArray) -> dict[str, InFlight]:
    compiler, problem = ThroughputCompiler(worker.host, worker.tolerance), worker.problem

    def compile_arm(
        assignment: IntArray, requests: int, specs: Sequence[DeviceSpec] = PAIR
    ) -> InFlight:
        partition = worker.host.divide(assignment, specs)
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
    """(n_arms, N_ROUNDS, 2) ms a result, and busy cores, which show whether devices overlap."""
    samples = np.empty((len(arms), N_ROUNDS, 2))
    for round_ in range(N_ROUNDS):
        for index in range(len(arms)) if round_ % 2 == 0 else reversed(range(len(arms))):
            wall_s, cpu_s = perf_counter(), process_time()
            ms = arms[index].time_window()
            wall_s, cpu_s = perf_counter() - wall_s, process_time() - cpu_s
            samples[index, round_] = ms, cpu_s / wall_s
    return samples


def summarize(names: Sequence[str], samples: FloatArray) -> list[Row]:
    ms, cores = samples[..., :1], samples[..., 1]
    alone, best = ms[0], ms[names.index(BEST)]
    return [
        {
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
    """Half-width of the 95 % interval of ``ratio``, by resampling rounds."""
    ratios = (reference / candidate).ravel()
    drawn = np.random.default_rng(0).choice(ratios, (2000, len(ratios)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(high - low) / 2


def list_rates(model: str, rows: Sequence[Row]) -> list[Row]:
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
    """A ratio with its interval; that of an arm to itself has none."""
    return f"{ratio:.2f} ± {noise:.2f}" if noise else f"{ratio:.2f}"


TABLES: Tables = {model: partial(list_rates, model) for model in MODELS}


if __name__ == "__main__":
    run_benchmark(__doc__, {"all": (list_jobs, measure)})
