"""Replay the placements of a study: simulated ones exactly, measured ones within noise."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from placement_gym.bench import results
from placement_gym.bench.finalists import fastest
from placement_gym.bench.worker import arena_of

ROUNDING = 1e-9
CHANCE = 2.0
"""Intervals by which two noisy measurements may differ."""


@dataclass(frozen=True)
class Verdict:
    """What became of one row.

    Attributes:
        key: Of the row.
        label: Agent, model and seed.
        problem: Why the row is not valid, or an empty string.
    """

    key: str
    label: str
    problem: str


def validate(folder: str | Path) -> Iterator[Verdict]:
    """A verdict on each row that has a placement.

    The environment is made again from the row alone, and the placement evaluated: a simulated
    latency must be the same; a measured speed-up over the best single device must agree within the
    noise of both measurements, and the outputs with those of the reference device. Evaluations
    must not exceed the budget, and keys must differ.

    Raises:
        ValueError: There are no results.
    """
    rows = results.load(Path(folder) / "results.jsonl")
    if not rows:
        raise ValueError(f"{folder} holds no results.jsonl with rows")
    seen: set[str] = set()
    for row in sorted(rows, key=lambda row: row["problem"]):
        label = f"{row['label']}, {row['model']}, seed {row['seed']}"
        problem = "its key appears twice" if row["key"] in seen else replayed(row)
        seen.add(row["key"])
        yield Verdict(row["key"], label, problem)


def replayed(row: results.Json) -> str:
    """Why a row does not hold, or an empty string."""
    if row["evaluations"] > row["budget"]:
        return f"{row['evaluations']} evaluations exceed the budget of {row['budget']}"
    if row["placement"] is None:
        return "" if row["error"] else "neither a placement nor an error"
    arena = arena_of(row["env"], json.dumps(row["env_kwargs"]))
    units = arena.base.problem.units
    if units.graph.fingerprint() != row["model_fingerprint"] or set(units.names) != set(
        row["placement"]
    ):
        return "the model, or its units, are others now"
    names = arena.base.problem.device_names
    assignment = np.array([names.index(row["placement"][unit]) for unit in units.names])
    arena.finals.clear()
    again = fastest(arena, [assignment])
    if not arena.measured:
        latency_ms = again.measurement.latency_ms
        same = math.isclose(latency_ms, row["latency_ms"], rel_tol=ROUNDING)
        return "" if same else f"{row['latency_ms']:.6g} ms is {latency_ms:.6g} ms now"
    allowed = CHANCE * (again.noise + (row["noise"] or 0.0))
    ratio = again.speedup_vs_best_single / row["speedup_vs_best_single"]
    if abs(ratio - 1.0) <= allowed:
        return ""
    before, now = row["speedup_vs_best_single"], again.speedup_vs_best_single
    return f"{before:.3f} x the best single device is {now:.3f} now"
