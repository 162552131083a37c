"""Finalists are measured afresh, in a new process, beside the best single device."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import gymnasium as gym
import numpy as np

from placement_gym.backends import Measurement
from placement_gym.bench.arena import Arena
from placement_gym.env import placement_env
from placement_gym.graph.operators import IntArray

YES, NO, WITHIN_NOISE = "yes", "no", "within noise"


@dataclass(frozen=True)
class Finalist:
    """A placement measured beside the fastest single device.

    Attributes:
        assignment: (n_units,) device indices.
        measurement: Its own, against the reference device.
        single: The fastest single device's, of the same interleaved run.
    """

    assignment: IntArray
    measurement: Measurement
    single: Measurement

    @property
    def speedup_vs_best_single(self) -> float:
        return self.measurement.speedup / self.single.speedup

    @property
    def noise(self) -> float:
        """Half-width of the uncertainty of ``speedup_vs_best_single``, as a fraction."""
        if self.measurement is self.single:
            return 0.0
        return float(np.hypot(self.measurement.noise, self.single.noise))

    @property
    def beats_best_single(self) -> str:
        """``"yes"`` or ``"no"``, or ``"within noise"`` where that cannot be told."""
        gain = self.speedup_vs_best_single - 1.0
        if self.measurement is self.single or gain < -self.noise:
            return NO
        return YES if gain > self.noise else WITHIN_NOISE


def fastest(arena: Arena, candidates: Sequence[IntArray]) -> Finalist:
    """The fastest candidate after a fresh measurement of all, in a new process where noisy.

    Args:
        arena: Where they were found.
        candidates: Distinct feasible placements.
    """
    base = arena.base
    best = base.singles.best()
    single = None if best is None else base.problem.single(best)
    arms = list(candidates)
    if single is not None and not any(np.array_equal(single, arm) for arm in arms):
        arms.append(single)
    measured = in_new_process(arena, arms) if arena.measured else base.backend.remeasure(arms)
    of_arm = {arm.tobytes(): m for arm, m in zip(arms, measured, strict=True)}
    beside = base.singles.fastest() if single is None else of_arm[single.tobytes()]
    chosen = max(candidates, key=lambda arm: of_arm[arm.tobytes()].speedup)
    return Finalist(chosen, of_arm[chosen.tobytes()], beside)


def in_new_process(arena: Arena, assignments: Sequence[IntArray]) -> list[Measurement]:
    """``Backend.remeasure`` in a process that has measured nothing before.

    Raises:
        RuntimeError: The process failed; the message is its last line.
    """
    task = {
        "env_id": arena.env_id,
        "env_kwargs": dict(arena.env_kwargs),
        "assignments": [assignment.tolist() for assignment in assignments],
    }
    command = [sys.executable, "-m", __spec__.name]
    done = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise RuntimeError(f"re-measuring failed: {lines[-1]}")
    return [Measurement(**values) for values in json.loads(done.stdout.splitlines()[-1])]


def main() -> None:
    """Read a task from standard input and print the measurements as JSON."""
    task = json.load(sys.stdin)
    warnings.simplefilter("ignore", UserWarning)
    env = gym.make(f"placement_gym:{task['env_id']}", **task["env_kwargs"])
    assignments = [np.array(values, dtype=np.int64) for values in task["assignments"]]
    measured = placement_env(env).backend.remeasure(assignments)
    print(json.dumps([asdict(measurement) for measurement in measured]))


if __name__ == "__main__":
    main()
