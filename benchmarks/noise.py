"""The noise floor: the same placement compiled and measured several times."""

from __future__ import annotations

import argparse

import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.measured.measuring import MeasuringBackend


def find_alternating_runs(backend: MeasuringBackend, n_submodels: int) -> IntArray:
    """Equal runs of units on alternating devices that make ``n_submodels`` submodels."""
    n_units = backend.problem.n_units
    for n_runs in range(n_submodels, n_units):
        assignment = np.arange(n_units) * n_runs // n_units % 2
        if backend.compile(assignment).compilation.n_submodels == n_submodels:
            return assignment
    raise ValueError(f"no placement with {n_submodels} submodels was found")


def format_spread(values: list[float]) -> str:
    middle = np.median(values)
    return f"{(max(values) - min(values)) / middle * 100:5.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet", help="built-in model or file")
    parser.add_argument("--times", type=int, default=5, help="compilations of each placement")
    options = parser.parse_args()
    backend = build_measured_backend(options.model, "cpu-testbed")
    placements = {
        "CPU_FAST alone": backend.problem.single(1),
        "four submodels": find_alternating_runs(backend, 4),
    }
    print("spread (largest - smallest) / median over", options.times, "measurements")
    for name, assignment in placements.items():
        search = [backend.evaluate_ignoring_limits(assignment) for _ in range(options.times)]
        reference = backend.problem.single(0)
        final = [backend.remeasure([reference, assignment])[1] for _ in range(options.times)]
        for kind, found in (("search", search), ("finalist", final)):
            print(
                f"{name:<15} {kind:<9} speed-up {np.median([m.speedup for m in found]):.3f}, "
                f"spread {format_spread([m.speedup for m in found])}; of the bare latency "
                f"{format_spread([m.latency_ms for m in found])}; stated noise "
                f"±{np.median([m.noise for m in found]) * 100:.1f} %"
            )


if __name__ == "__main__":
    main()
