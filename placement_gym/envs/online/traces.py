"""Traces of requests, and of other programs that use the devices."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

import numpy as np

from placement_gym.base import FloatArray, IntArray, UserError
from placement_gym.envs.online.kernel import Trace
from placement_gym.envs.online.plans import PlanTable

SPLITS = {"train": 0, "validation": 1_000_000, "test": 2_000_000}
"""Seed of the first trace of each split."""
PER_SPLIT = 1_000_000
CHANGE_CHANCE = 0.02
"""Chance at each request that the mix of models and the rate change. Hand-tuned."""
CONCENTRATION = 0.7
"""Of the Dirichlet distribution of mixes: below 1, few models make up most of a mix. Hand-tuned."""
RATE_FACTORS = (0.6, 1.5)
"""Range of a uniform factor of the rate. Hand-tuned."""
IDLE_LATENCIES, BUSY_LATENCIES = 90.0, 40.0
"""Mean times without and with another program on a device, in mean latencies. Hand-tuned."""


def draw_trace(plans: PlanTable, rate: float, n_requests: int, seed: int) -> Trace:
    """Draw a trace of random arrivals, whose mix and rate change at times, and other programs.

    Args:
        plans: Rates and latencies of the models.
        rate: Requests in a mean latency of the fastest plans.
        n_requests: Number of requests.
        seed: Seed of the trace.
    """
    rng = np.random.default_rng(seed)
    part = np.cumsum(rng.random(n_requests) < CHANGE_CHANCE)
    n_parts, alpha = part[-1] + 1, CONCENTRATION * len(plans.models) * np.array(plans.shares)
    mixes = rng.dirichlet(alpha, n_parts).cumsum(axis=1)
    busy = rng.uniform(*RATE_FACTORS, n_parts)[part]
    models = (rng.random((n_requests, 1)) > mixes[part, :-1]).sum(axis=1)
    arrivals_ms = np.cumsum(rng.exponential(plans.mean_ms / rate, n_requests) / busy)
    return Trace(arrivals_ms, models, draw_toggles(plans, float(arrivals_ms[-1]), rng))


def draw_toggles(plans: PlanTable, until_ms: float, rng: np.random.Generator) -> FloatArray:
    """(n_devices, n_toggles) times at which another program begins or ends, the first before 0."""
    n_devices = len(plans.devices)
    cycle = IDLE_LATENCIES + BUSY_LATENCIES
    pairs = 4 + int(3.0 * until_ms / (cycle * plans.mean_ms))
    lengths = rng.exponential(plans.mean_ms, (n_devices, pairs, 2)) * (
        IDLE_LATENCIES,
        BUSY_LATENCIES,
    )
    # The trace begins at a uniform time of the first cycle.
    begin_ms = rng.uniform(0.0, cycle * plans.mean_ms, (n_devices, 1))
    return lengths.reshape(n_devices, -1).cumsum(axis=1) - begin_ms


def read_arrivals(path: str | Path, plans: PlanTable) -> tuple[FloatArray, IntArray]:
    """Read arrivals from a CSV file with the columns ``time_ms`` and ``model``.

    Returns:
        (n_requests,) times in ms since the first request, and (n_requests,) models.

    Raises:
        UserError: The file cannot be read, or a line is not valid.
    """
    try:
        rows = list(csv.DictReader(StringIO(Path(path).read_text())))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot read the arrivals {str(path)!r}: {error}") from None
    names = [model.name for model in plans.models]
    times, models = [], []
    for line, row in enumerate(rows, 2):
        try:
            times.append(float(row["time_ms"]))
            models.append(names.index(row["model"]))
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"{path}, line {line}: a line is time_ms,model with a number and one of "
                f"{', '.join(names)}, under a line of these two words; not {row!r:.120}"
            ) from None
    if not rows or not np.isfinite(times).all() or np.any(np.diff(times) < 0):
        raise UserError(f"{path}: times of one or more requests ascend, in milliseconds")
    return np.array(times) - times[0], np.array(models, dtype=np.int64)
