"""Random placements measured with OpenVINO: failures, and errors of the outputs."""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
from rich.progress import track

from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.measured.lock import measurement_lock
from placement_gym.backends.measured.outputs import relative_error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="resnet,inception,bert", help="comma-separated")
    parser.add_argument("--placements", type=int, default=200, help="total number")
    options = parser.parse_args()
    models = options.models.split(",")
    rng = np.random.default_rng(0)
    for model in models:
        backend = build_measured_backend(model, "cpu-testbed", isolate=False)
        n_units = backend.problem.n_units
        errors, submodels, failures = [], [], Counter[str]()
        exact = 0
        for index in track(range(options.placements // len(models) + 1), model):
            devices = rng.integers(2, size=n_units)
            if index % 2:
                cuts = np.sort(rng.integers(1, n_units, size=rng.integers(1, 8)))
                devices = rng.integers(2, size=9)[np.searchsorted(cuts, np.arange(n_units))]
            with measurement_lock():
                try:
                    candidate = backend.compile(devices)
                except RuntimeError as error:
                    failures[str(error)] += 1
                    continue
            errors.append(relative_error(candidate.outputs(), backend.expected_outputs))
            made = candidate.compilation
            submodels.append(made.n_submodels)
            exact += made.n_submodels == made.n_submodels_expected
        print(
            f"{model}: {len(errors)} placements ran, {sum(failures.values())} failed "
            f"{dict(failures) or ''}; {min(submodels)} to {max(submodels)} submodels, as expected "
            f"in {exact}; largest relative error {max(errors):.1e}"
        )


if __name__ == "__main__":
    main()
