"""Compile the kernels of some schedules, so that numba's cache holds them before tests begin."""

from __future__ import annotations

import sys

import gymnasium as gym
import numpy as np


def compile_kernels(schedule: str) -> None:
    env = gym.make("placement_gym:DevicePlacementSim-v0", model="tiny", schedule=schedule)
    env.reset(seed=0)
    backend = env.unwrapped.backend  # type: ignore[attr-defined]
    assignment = np.arange(backend.problem.n_units) % 2
    backend.evaluate(assignment)
    backend.evaluate_batch(np.stack([assignment, assignment]))
    backend.start_ms(assignment)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        compile_kernels(name)
