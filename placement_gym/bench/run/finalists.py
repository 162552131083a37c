"""Finalists are measured again, in a new process, beside the best single device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict

import gymnasium as gym
import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.backends.protocol import PENALTY, Measurement
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.finalist import Finalist
from placement_gym.bench.run.verdict import YES
from placement_gym.bench.run.watchdog import exit_with_parent
from placement_gym.env import placement_env
from placement_gym.errors import EngineError
from placement_gym.files import IMPORT_ROOT


def choose_finalist(bench_env: BenchEnv, candidates: Sequence[IntArray]) -> Finalist:
    """Measure every candidate again and return the fastest; in a new process where noisy.

    The fastest of several noisy measurements is biased. So a candidate that beats the best single
    device is measured once more, alone, and that measurement counts.

    Args:
        bench_env: The environment that they were found in.
        candidates: Distinct feasible placements.
    """
    unknown = [one for one in candidates if one.tobytes() not in bench_env.finals]
    if unknown:
        remeasure(bench_env, unknown)
    finals = [bench_env.finals[candidate.tobytes()] for candidate in candidates]
    chosen = max(finals, key=lambda final: final.speedup_vs_best_single)
    if bench_env.measured and unknown and chosen.beats_best_single == YES:
        remeasure(bench_env, [chosen.assignment])
    return bench_env.finals[chosen.assignment.tobytes()]


def remeasure(bench_env: BenchEnv, candidates: Sequence[IntArray]) -> None:
    """Measure placements beside the best single device and keep them in ``bench_env.finals``.

    The reference device is measured with the first of them.
    """
    problem, best = bench_env.base.problem, bench_env.base.singles.best()
    reference = problem.single(problem.reference_device)
    single = reference if best is None else problem.single(best)
    by_key = {one.tobytes(): one for one in (single, *candidates)}
    known = bench_env.finals.get(reference.tobytes())
    if known is None:
        by_key[reference.tobytes()] = reference
    placements = list(by_key.values())
    if bench_env.measured:
        measured = remeasure_in_new_process(bench_env, placements)
    else:
        measured = bench_env.base.backend.remeasure(placements)
    measurements = dict(zip(by_key, measured, strict=True))
    asked = {candidate.tobytes() for candidate in candidates}
    of_reference = known.measurement if known else measurements[reference.tobytes()]
    for key, measurement in measurements.items():
        speedup = measurement.speedup / of_reference.speedup
        handicap = PENALTY if best is None else 1.0
        if key in asked or key not in bench_env.finals:
            bench_env.finals[key] = Finalist(by_key[key], measurement, speedup, handicap)


def remeasure_in_new_process(
    bench_env: BenchEnv, assignments: Sequence[IntArray]
) -> list[Measurement]:
    """``Backend.remeasure`` in a process that has measured nothing before.

    Raises:
        EngineError: The process failed; the message is its last line.
    """
    request = {
        "env_id": bench_env.env_id,
        "env_kwargs": dict(bench_env.env_kwargs),
        "fingerprint": bench_env.base.problem.fingerprint(),
        "assignments": [assignment.tolist() for assignment in assignments],
        "parent": os.getpid(),
    }
    # -P: no file of the working folder hides a module of Python or of this package
    command = [sys.executable, "-P", "-m", __spec__.name]
    paths = [str(IMPORT_ROOT), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        command,
        input=json.dumps(request),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise EngineError(f"re-measuring failed: {lines[-1]}")
    return [Measurement(**values) for values in json.loads(done.stdout.splitlines()[-1])]


def main() -> None:
    """Read a request from standard input and print the measurements as JSON."""
    request = json.load(sys.stdin)
    exit_with_parent(request["parent"])
    warnings.simplefilter("ignore", UserWarning)
    env = gym.make(f"placement_gym:{request['env_id']}", **request["env_kwargs"])
    assignments = [np.array(values, dtype=np.int64) for values in request["assignments"]]
    base = placement_env(env)
    if base.problem.fingerprint() != request["fingerprint"]:
        raise SystemExit("the new process groups the model differently: try another granularity")
    measured = base.backend.remeasure(assignments)
    print(json.dumps([asdict(measurement) for measurement in measured]))


if __name__ == "__main__":
    main()
