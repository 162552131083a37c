"""Finalists are measured again, alongside the best single device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from placement_gym.backends.protocol import PENALTY, Measurement
from placement_gym.base.arrays import IntArray
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.finalists import NO, Finalist


def choose_finalist(bench_env: BenchEnv, candidates: Sequence[IntArray]) -> Finalist:
    """Measure every candidate again and return the fastest; where noisy in a new process.

    The fastest of several noisy measurements is biased, and a race of several ends before each is
    known exactly. So a candidate that is not clearly slower than the best single device is measured
    once more, alone, and that measurement counts; so is one whose measurement is doubtful, and if
    it still is, it decides nothing. This happens once to a placement, also if an earlier run
    measured it alongside others.

    Args:
        bench_env: The environment that they were found in.
        candidates: Distinct feasible placements.
    """
    unknown = [one for one in candidates if one.tobytes() not in bench_env.finals]
    if unknown:
        remeasure(bench_env, unknown)
    finals = [bench_env.finals[candidate.tobytes()] for candidate in candidates]
    chosen = max(finals, key=lambda final: final.speedup_vs_best_single)
    uncertain = chosen.beats_best_single != NO or chosen.measurement.doubt
    if not (bench_env.measured and uncertain) or chosen.rechecked:
        return chosen
    remeasure(bench_env, [chosen.assignment])
    key = chosen.assignment.tobytes()
    bench_env.finals[key] = replace(bench_env.finals[key], rechecked=True)
    return bench_env.finals[key]


def remeasure(bench_env: BenchEnv, candidates: Sequence[IntArray]) -> None:
    """Measure placements alongside the best single device and keep them in ``bench_env.finals``.

    The reference device is measured with the first of them.
    """
    problem, best = bench_env.base.problem, bench_env.best_single
    reference = problem.single(problem.reference_device)
    single = reference if best is None else problem.single(best)
    by_key = {one.tobytes(): one for one in (single, *candidates)}
    known = bench_env.finals.get(reference.tobytes())
    if known is None:
        by_key[reference.tobytes()] = reference
    placements = list(by_key.values())
    measured = bench_env.base.backend.remeasure(placements)
    measurements = dict(zip(by_key, measured, strict=True))
    if known is None and best is not None and not bench_env.base.backend.infeasibility(reference):
        measurements = choose_faster_single(bench_env, measurements, reference)
    wanted = {candidate.tobytes() for candidate in candidates}
    of_reference = known.measurement if known else measurements[reference.tobytes()]
    for key, measurement in measurements.items():
        speedup = measurement.speedup / of_reference.speedup
        handicap = PENALTY if best is None else 1.0
        if key in wanted or key not in bench_env.finals:
            bench_env.finals[key] = Finalist(by_key[key], measurement, speedup, handicap)


def choose_faster_single(
    bench_env: BenchEnv, measurements: dict[bytes, Measurement], reference: IntArray
) -> dict[bytes, Measurement]:
    """Measurements relative to the reference device if that is the faster single device.

    The reference is a single device, so that the best of these is not slower. If the one that was
    taken for the best is, the reference takes its place; all were measured together.

    Args:
        bench_env: Takes note of it.
        measurements: By the bytes of assignments, relative to the best single device so far.
        reference: Its assignment, which may run alone.
    """
    alone = measurements[reference.tobytes()]
    if alone.speedup <= 1.0:
        return measurements
    bench_env.__dict__["best_single"] = bench_env.base.problem.reference_device
    return {key: replace(one, reference_ms=alone.latency_ms) for key, one in measurements.items()}
