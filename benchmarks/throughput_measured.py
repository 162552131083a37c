"""Requests a second: a plan of two stages on two one-thread CPU devices against one device.

    python benchmarks/throughput_measured.py rates --model resnet --rows rows.jsonl
    python benchmarks/throughput_measured.py overlap --model resnet --results 8

``rates`` measures a plan by processor time and by the clock, and adds its rows to the file, whose
tables ``measured_tables.py`` prints. ``overlap`` asks whether stages of different requests overlap:
it samples the threads that want a core as requests run. What else the machine does slows them but
hardly changes how many there are, unlike rates.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from common import Row, append_row, describe_placement, make_parser
from pipeline_arms import BEST, PAIR, Arms, measure
from thread_overlap import sample_overlap

from placement_gym.backends.measured.assembly import build_measured_backend
from placement_gym.backends.measured.kept_profiles import load_or_measure
from placement_gym.backends.measured.timing_protocol import FOR_FITTING
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.bench.run.provenance import origin
from placement_gym.hardware.device_requests import resolve_devices
from placement_gym.models.spec import ModelSpec
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.pipelines.pipeline import exact_pipeline, find_largest_load_ms

N_COMPILATIONS = 3
"""Of each arm."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("command", choices=("rates", "overlap"))
    parser.add_argument("--rows", type=Path, default=Path("rows.jsonl"), help="%(default)s")
    parser.add_argument("--model", default="resnet")
    parser.add_argument("--scenario", help="of a model with state, as in chat-16-8")
    parser.add_argument("--results", type=int, default=12, help="of each arm of overlap")
    options = parser.parse_args()
    if options.command == "overlap":
        sample_overlap(options.model, options.results)
    else:
        for row in measure_rates(options):
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
    devices = [spec.to_json() for spec in PAIR]
    asked = {"model": options.model, "scenario": options.scenario, "devices": devices}
    facts = origin() | {
        "agent": "dp",
        "kwargs": {},
        "env": "DevicePlacement-v0",
        "env_kwargs": asked | {"granularity": "fused", "objective": "throughput"},
        "seed": 0,
        "budget": 1,
        "curve": [],
        "placement": describe_placement(problem, split),
        "model": options.model,
        "scenario": options.scenario,
        "stage_ms": costs.submodel_ms.tolist(),
        "predicted_without_stages": plain[0] / plain[1],
        "predicted_alone_ms": alone_ms,
        "predicted_plan_ms": load_ms,
        "processor_alone_ms": whole_ms,
        "processor_stages_ms": stages_ms,
    }
    rows = summarize(*measure(arms, N_COMPILATIONS), facts)
    return [row | {"cpu_s": round(process_time(), 1)} for row in rows]


def predict(problem: Problem, costs: CostTable, split: IntArray) -> tuple[float, float]:
    """Milliseconds a result on the first device alone, and under a plan."""
    alone, plan = (
        find_largest_load_ms(problem, costs, placed) for placed in (problem.single(0), split)
    )
    return alone, plan


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


if __name__ == "__main__":
    main()
