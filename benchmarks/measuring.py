"""Time that a process of its own adds to measuring with OpenVINO.

python benchmarks/measuring.py --model resnet --steps 12
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from common import make_parser

from placement_gym.backends.measured import build_measured_backend
from placement_gym.hardware.devices import TESTBED
from placement_gym.models import ModelSpec


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", default="tiny", help="built-in model or file (%(default)s)")
    parser.add_argument("--steps", type=int, default=12, help="of each process (%(default)s)")
    options = parser.parse_args()
    time_isolation(options.model, options.steps)


def time_isolation(model: str, steps: int) -> None:
    """Measure the same placements in this process and in its own, in turns."""
    alone = build_measured_backend(ModelSpec(model), TESTBED, isolate=False)
    isolated = build_measured_backend(ModelSpec(model), TESTBED)
    problem = isolated.problem
    start_s = time_s(isolated.ask, "ready")
    request_s = float(np.median([time_s(isolated.ask, "ready") for _ in range(200)]))
    single = problem.single(0)
    for backend in (alone, isolated):
        backend.evaluate(single)
    seconds = np.empty((steps, 2))
    for step in range(steps):
        placed = single.copy()
        placed[: (step + 1) * problem.n_units // (steps + 1)] = 1
        for arm in (0, 1) if step % 2 == 0 else (1, 0):
            seconds[step, arm] = time_s((alone, isolated)[arm].measure_once, placed)
    here_s, there_s = np.median(seconds, axis=0)
    print(f"{model}: the process starts in {start_s:.1f} s, once")
    print(f"a request and its answer: {1e3 * request_s:.2f} ms, {request_s / here_s:.3%} of a step")
    print(f"a step in this process {here_s:.3f} s, in its own {there_s:.3f} s")
    print(f"ratio of the medians: {there_s / here_s:.3f}")
    isolated.close()


def time_s(action: Callable[..., Any], *arguments: Any) -> float:
    """Seconds that a call takes."""
    started = perf_counter()
    action(*arguments)
    return perf_counter() - started


if __name__ == "__main__":
    main()
