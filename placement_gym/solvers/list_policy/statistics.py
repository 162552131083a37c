"""Statistics of a problem, from which a policy chooses the weights of a list scheduler."""

from __future__ import annotations

import numpy as np

from placement_gym.base import Float32Array, kernel, round_significant
from placement_gym.solvers.list_policy.list_problem import LOAD, SERIAL, ListProblem, add_up

STATISTICS = (
    "units",
    "devices",
    "limited",
    "tightness",
    "largest",
    "transfer",
    "width",
    "host",
    "contended",
    "serial",
    "throughput",
)
N_STATISTICS = len(STATISTICS)
LARGEST = 10.0
"""Absolute value that no statistic exceeds."""
LEAST = 1e-9


def compute_statistics(view: ListProblem) -> Float32Array:
    """(``N_STATISTICS``,) float32 numbers, most of them from -2 to 2.

    Logarithms of the number of units, of the mean transfer over the mean time of an operator, of
    the width (all best times over the longest path of these) and of the host's time over the best
    one; numbers of devices; whether there are limits, the model's bytes over them and the largest
    unit's over the smallest; whether transfers wait for each other, and whether latencies are sums
    or largest loads.
    """
    n_units, n_devices = view.unit_ms.shape
    best, hosted, transfer, longest = add_up_times(view)
    pairs = max(n_devices * (n_devices - 1) * len(view.transfer_ms), 1)
    limited = len(view.limit) > 0
    values = [
        log(n_units) / 5.5 - 1.0,
        n_devices / 4.0 - 1.0,
        float(limited),
        min(add_up(view.size) / max(add_up(view.limit), 1.0), 2.0) - 0.5 if limited else -0.5,
        min(view.size.max() / max(view.limit.min(), 1.0), 1.0) if limited else 0.0,
        log(transfer / pairs / max(view.mean_ms, LEAST)) / 3.0,
        log(best / max(longest, LEAST)) / 2.0 - 0.5,
        log(hosted / max(best, LEAST)) / 3.0,
        float(view.send[0, 0] >= 0 and view.kind not in (SERIAL, LOAD)),
        float(view.kind == SERIAL),
        float(view.kind == LOAD),
    ]
    clipped = np.clip(values, -LARGEST, LARGEST)
    return round_significant(clipped, 6).astype(np.float32)


def log(value: float) -> float:
    """The logarithm, also of zero."""
    return float(np.log(max(value, LEAST)))


@kernel
def add_up_times(view: ListProblem) -> tuple[float, float, float, float]:
    """Sums in ms, all in order, so that they are the same on every processor.

    The units' best times, their times on the host, all transfers, and the best times on the longest
    path through the operators.
    """
    best = hosted = transfer = longest = 0.0
    for times in view.unit_ms:
        best += times.min()
        hosted += times[view.host]
    for time in view.transfer_ms.flat:
        transfer += time

    finish = np.empty(len(view.ms))
    for i in view.sequence:
        ready = 0.0
        for r in range(view.first[i], view.first[i + 1]):
            ready = max(ready, finish[view.maker[r]])
        finish[i] = ready + view.ms[i].min()
        longest = max(longest, finish[i])
    return best, hosted, transfer, longest
