"""Measured runs with faults of every kind: python benchmarks/faults.py --steps 1000 --faults 100.

Each fault strikes one measurement. It must cost no result, keep no wrong value and end no run. At
most half of the steps of a run are struck, each by one of a few kinds; the kinds take several runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.measured.isolated import IsolatedBackend
from placement_gym.backends.measured.timing_protocol import TimingProtocol

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
PROTOCOL = TimingProtocol(warmup=1, repeats=2, attempts=1)
NONE = "-"


def main() -> None:
    """Print for each kind what its faults cost."""
    sys.path.append(str(SUPPORT))
    from faulty_worker import FAULTS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="of each run")
    parser.add_argument("--faults", type=int, default=100, help="of each kind")
    parser.add_argument("--kinds", nargs="*", default=FAULTS)
    parser.add_argument("--timeout", type=float, default=2.0)
    options = parser.parse_args()
    paths = f"{SUPPORT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    file = Path(tempfile.mkdtemp()) / "faults"
    os.environ |= {"FAULTS": str(file), "PYTHONPATH": paths}
    n_kinds = max(options.steps // (2 * options.faults), 1)
    for first in range(0, len(options.kinds), n_kinds):
        kinds = options.kinds[first : first + n_kinds]
        run(kinds, options.steps, options.faults, options.timeout, file)


def run(kinds: Sequence[str], steps: int, faults: int, timeout_s: float, file: Path) -> None:
    """Measure random placements while faults of these kinds strike; ``file`` tells the worker."""
    from faulty_worker import REFUSALS

    backend = build_measured_backend("tiny", "cpu-testbed", protocol=PROTOCOL, timeout_s=timeout_s)
    assert isinstance(backend, IsolatedBackend)
    backend.engine.module = "faulty_worker"
    rng = np.random.default_rng(0)
    struck = [kind for kind in kinds for _ in range(faults)]
    plan = rng.permutation(struck + [NONE] * (steps - len(struck))).tolist()
    seconds, lost, wrong = defaultdict(list), defaultdict(int), defaultdict(int)
    for kind in plan:
        file.write_text(kind)
        started = perf_counter()
        found = backend.evaluate(rng.integers(0, 2, backend.problem.n_units))
        seconds[kind].append(perf_counter() - started)
        refused = kind in REFUSALS
        lost[kind] += bool(found.error) and not refused
        wrong[kind] += not 0.0 < found.latency_ms < np.inf or (refused and not found.error)
    backend.close()
    usual_s = float(np.median(seconds[NONE]))
    print(f"a run of {steps} steps, {usual_s:.2f} s each", flush=True)
    for kind in (NONE, *kinds):
        name = "no fault" if kind == NONE else kind
        cost_s = float(np.median(seconds[kind])) - usual_s
        print(
            f"{name:12} {len(seconds[kind])} times: {lost[kind]} results lost, {wrong[kind]} wrong "
            f"values, {cost_s:+.2f} s each",
            flush=True,
        )


if __name__ == "__main__":
    main()
