"""A measured run with faults of every kind: python benchmarks/faults.py --steps 1000 --faults 100.

Each fault strikes one measurement. It must cost no result, keep no wrong value and end no run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.measured.isolated import IsolatedBackend
from placement_gym.backends.measured.timing_protocol import TimingProtocol

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
PROTOCOL = TimingProtocol(warmup=1, repeats=2, attempts=1)


def main() -> None:
    """Print for each kind what its faults cost."""
    sys.path.append(str(SUPPORT))
    from faulty_worker import FAULTS, REFUSALS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=100, help="of each kind")
    parser.add_argument("--kinds", nargs="*", default=FAULTS)
    parser.add_argument("--timeout", type=float, default=2.0)
    options = parser.parse_args()
    paths = f"{SUPPORT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    file = Path(tempfile.mkdtemp()) / "faults"
    os.environ |= {"FAULTS": str(file), "PYTHONPATH": paths}
    for kind in options.kinds:
        backend = build_measured_backend(
            "tiny", "cpu-testbed", protocol=PROTOCOL, timeout_s=options.timeout
        )
        assert isinstance(backend, IsolatedBackend)
        backend.engine.module = "faulty_worker"
        rng = np.random.default_rng(0)
        struck = set(rng.choice(options.steps, options.faults, replace=False).tolist())
        seconds: dict[bool, list[float]] = {True: [], False: []}
        lost = wrong = 0
        for step in range(options.steps):
            file.write_text(kind if step in struck else "")
            started = perf_counter()
            found = backend.evaluate(rng.integers(0, 2, backend.problem.n_units))
            seconds[step in struck].append(perf_counter() - started)
            refused = step in struck and kind in REFUSALS
            lost += bool(found.error) and not refused
            wrong += not 0.0 < found.latency_ms < np.inf or (refused and not found.error)
        backend.close()
        cost_s = np.mean(seconds[True]) - np.mean(seconds[False])
        print(
            f"{kind:12} {options.steps} steps, {options.faults} faults: {lost} results lost, "
            f"{wrong} wrong values, {cost_s:+.2f} s a fault",
            flush=True,
        )


if __name__ == "__main__":
    main()
