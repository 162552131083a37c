"""What a process of its own costs a measured step: python benchmarks/isolation.py [model]."""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.measured.isolated import IsolatedBackend


def time_s(action: object, *arguments: object) -> float:
    started = perf_counter()
    action(*arguments)  # type: ignore[operator]
    return perf_counter() - started


def main() -> None:
    """Alternate both ways on the same placements, and time requests that do nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="resnet")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    alone = build_measured_backend(options.model, "cpu-testbed", isolate=False)
    isolated = build_measured_backend(options.model, "cpu-testbed")
    assert isinstance(isolated, IsolatedBackend)
    problem = isolated.problem
    start_s = time_s(isolated.ask, "ready")
    request_s = float(np.median([time_s(isolated.ask, "ready") for _ in range(200)]))
    single = problem.single(0)
    for backend in (alone, isolated):
        backend.evaluate(single)
    seconds = np.empty((options.steps, 2))
    for step in range(options.steps):
        placed = single.copy()
        placed[: (step + 1) * problem.n_units // (options.steps + 1)] = 1
        for arm in (0, 1) if step % 2 == 0 else (1, 0):
            seconds[step, arm] = time_s((alone, isolated)[arm].measure_once, placed)
    here_s, there_s = np.median(seconds, axis=0)
    print(f"{options.model}: the process starts in {start_s:.1f} s, once")
    print(f"a request and its answer: {1e3 * request_s:.2f} ms, {request_s / here_s:.3%} of a step")
    print(f"a step in this process {here_s:.3f} s, in its own {there_s:.3f} s")
    print(f"ratio of the medians: {there_s / here_s:.3f}")
    isolated.close()


if __name__ == "__main__":
    main()
