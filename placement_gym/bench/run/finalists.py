"""Finalists are measured afresh, in a new process, beside the best single device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import gymnasium as gym
import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.backends.protocol import PENALTY, Measurement
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.verdict import YES, compare_with_best_single
from placement_gym.bench.run.watchdog import exit_with_parent
from placement_gym.env import placement_env
from placement_gym.errors import EngineError


@dataclass(frozen=True)
class Finalist:
    """A placement measured beside the fastest single device.

    Attributes:
        assignment: (n_units,) device indices.
        measurement: Its own, against the fastest feasible single device.
        speedup: Over the reference device, in the same interleaved run.
        handicap: What ``measurement`` has to be multiplied with; 1 where a single device may run
            the model alone, else the penalty of an infeasible placement.
    """

    assignment: IntArray
    measurement: Measurement
    speedup: float
    handicap: float = 1.0

    @property
    def speedup_vs_best_single(self) -> float:
        return self.measurement.speedup * self.handicap

    @property
    def noise(self) -> float:
        """Half-width of the uncertainty of ``speedup_vs_best_single``, as a fraction."""
        return self.measurement.noise

    @property
    def beats_best_single(self) -> str:
        """``"yes"`` or ``"no"``, or ``"within noise"`` where that cannot be told."""
        return compare_with_best_single(self.speedup_vs_best_single, self.noise)


def fastest(bench_env: BenchEnv, candidates: Sequence[IntArray]) -> Finalist:
    """The fastest candidate after a fresh measurement of all, in a new process where noisy.

    The best of several keeps the luck of its measurement. So one that beats the best single
    device is measured once more, alone, and that counts.

    Args:
        bench_env: Where they were found.
        candidates: Distinct feasible placements.
    """
    unknown = [arm for arm in candidates if arm.tobytes() not in bench_env.finals]
    if unknown:
        measure_afresh(bench_env, unknown)
    finals = [bench_env.finals[candidate.tobytes()] for candidate in candidates]
    chosen = max(finals, key=lambda final: final.speedup_vs_best_single)
    if bench_env.measured and unknown and chosen.beats_best_single == YES:
        measure_afresh(bench_env, [chosen.assignment])
    return bench_env.finals[chosen.assignment.tobytes()]


def measure_afresh(bench_env: BenchEnv, candidates: Sequence[IntArray]) -> None:
    """Measure placements beside the best single device and keep them in ``bench_env.finals``."""
    problem, best = bench_env.base.problem, bench_env.base.singles.best()
    reference = problem.single(problem.reference_device)
    single = reference if best is None else problem.single(best)
    arms = {arm.tobytes(): arm for arm in (single, *candidates, reference)}
    placements = list(arms.values())
    backend = bench_env.base.backend
    measured = (
        in_new_process(bench_env, placements)
        if bench_env.measured
        else backend.remeasure(placements)
    )
    by_arm = dict(zip(arms, measured, strict=True))
    asked = {candidate.tobytes() for candidate in candidates}
    for key, measurement in by_arm.items():
        speedup = measurement.speedup / by_arm[reference.tobytes()].speedup
        handicap = PENALTY if best is None else 1.0
        if key in asked or key not in bench_env.finals:
            bench_env.finals[key] = Finalist(arms[key], measurement, speedup, handicap)


def in_new_process(bench_env: BenchEnv, assignments: Sequence[IntArray]) -> list[Measurement]:
    """``Backend.remeasure`` in a process that has measured nothing before.

    Raises:
        RuntimeError: The process failed; the message is its last line.
    """
    task = {
        "env_id": bench_env.env_id,
        "env_kwargs": dict(bench_env.env_kwargs),
        "fingerprint": bench_env.base.problem.fingerprint(),
        "assignments": [assignment.tolist() for assignment in assignments],
        "parent": os.getpid(),
    }
    command = [sys.executable, "-m", __spec__.name]
    done = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise EngineError(f"re-measuring failed: {lines[-1]}")
    return [Measurement(**values) for values in json.loads(done.stdout.splitlines()[-1])]


def main() -> None:
    """Read a task from standard input and print the measurements as JSON."""
    task = json.load(sys.stdin)
    exit_with_parent(task["parent"])
    warnings.simplefilter("ignore", UserWarning)
    env = gym.make(f"placement_gym:{task['env_id']}", **task["env_kwargs"])
    assignments = [np.array(values, dtype=np.int64) for values in task["assignments"]]
    base = placement_env(env)
    if base.problem.fingerprint() != task["fingerprint"]:
        raise SystemExit("the new process groups the model differently: try another granularity")
    measured = base.backend.remeasure(assignments)
    print(json.dumps([asdict(measurement) for measurement in measured]))


if __name__ == "__main__":
    main()
