"""Submodels and latency of single moves: our own split against HETERO's."""

from __future__ import annotations

import argparse

import numpy as np

from placement_gym.backends.measured import timing
from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.measured.lock import measurement_lock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="resnet,inception,bert", help="comma-separated")
    parser.add_argument("--moves", type=int, default=14, help="units moved, one at a time")
    parser.add_argument("--repeats", type=int, default=20, help="inferences of each")
    options = parser.parse_args()
    for model in options.models.split(","):
        alias, plain = (
            build_measured_backend(model, "cpu-testbed", split=split, isolate=False)
            for split in ("alias", "hetero")
        )
        n_units = alias.problem.n_units
        kept, gains = 0, []
        for move in range(options.moves):
            unit = int(n_units * (move + 0.5) / options.moves)
            assignment = alias.problem.single(1)
            assignment[unit] = 0
            # Take turns, so that the order of compilation favours neither.
            turns = [alias, plain] if move % 2 else [plain, alias]
            candidates = {backend: backend.compile_and_check(assignment) for backend in turns}
            ours, theirs = candidates[alias], candidates[plain]
            made, made_plain = ours.compilation, theirs.compilation
            with measurement_lock():
                samples = timing.time_interleaved([ours.run, theirs.run], options.repeats)
            gain = float(np.median(samples[1]) / np.median(samples[0]))
            kept += made.n_submodels == made.n_submodels_expected
            gains.append((made_plain.n_submodels, gain))
            print(
                f"{model} unit {unit:3d} expected {made.n_submodels_expected} "
                f"alias {made.n_submodels} hetero {made_plain.n_submodels:3d}   "
                f"alias is {gain:.2f} x hetero"
            )
        over = [gain for n_submodels, gain in gains if n_submodels > 5]
        print(
            f"{model}: alias as expected in {kept} of {options.moves}; hetero over-splits "
            f"{len(over)}, there alias is {np.median(over) if over else float('nan'):.2f} x "
            f"(at most {max(over, default=float('nan')):.2f}); "
            f"elsewhere {np.median([g for n, g in gains if n <= 5]):.2f} x"
        )


if __name__ == "__main__":
    main()
