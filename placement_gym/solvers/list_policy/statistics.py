"""Statistics of a problem, from which a policy chooses the weights of a list scheduler."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import Float32Array, round_significant
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
    best = add_up(view.unit_ms.min(axis=1))
    pairs = max(n_devices * (n_devices - 1) * len(view.transfer_ms), 1)
    transfer = add_up(view.transfer_ms) / pairs
    path = longest_path(view)
    limited = len(view.limit) > 0
    values = [
        log(n_units) / 5.5 - 1.0,
        n_devices / 4.0 - 1.0,
        float(limited),
        min(add_up(view.size) / max(add_up(view.limit), 1.0), 2.0) - 0.5 if limited else -0.5,
        min(view.size.max() / max(view.limit.min(), 1.0), 1.0) if limited else 0.0,
        log(transfer / max(view.mean_ms, LEAST)) / 3.0,
        log(best / max(path, LEAST)) / 2.0 - 0.5,
        log(add_up(view.unit_ms[:, view.host]) / max(best, LEAST)) / 3.0,
        float(view.send[0, 0] >= 0 and view.kind not in (SERIAL, LOAD)),
        float(view.kind == SERIAL),
        float(view.kind == LOAD),
    ]
    clipped = np.clip(values, -LARGEST, LARGEST)
    return round_significant(clipped, 6).astype(np.float32)


def log(value: float) -> float:
    """The logarithm, also of zero."""
    return float(np.log(max(value, LEAST)))


def longest_path(view: ListProblem) -> float:
    """The longest path of best times through the operators, transfers ignored, in ms."""
    first, maker = view.first.tolist(), view.maker.tolist()
    finish = view.ms.min(axis=1).tolist()
    for i in view.sequence.tolist():
        makers = maker[first[i] : first[i + 1]]
        finish[i] += max((finish[m] for m in makers), default=0.0)
    return float(max(finish, default=0.0))
