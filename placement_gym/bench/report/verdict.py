"""One sentence: does any split beat the best single device?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from placement_gym.bench.run.rows import group_by
from placement_gym.bench.run.verdict import UNDECIDED, WITHIN_NOISE, YES

Rows = Sequence[Mapping[str, Any]]


def state_verdict(rows: Rows, one_device_holds_the_model: bool = True) -> str:
    """Say in one sentence whether splitting the model pays.

    An agent beats the best single device if its finalist does so by more than the noise in more
    than half of its runs; the gain is the median of its runs, as in the table.

    Args:
        rows: All runs on one problem.
        one_device_holds_the_model: Whether some device may run the model alone.
    """
    mixed = [row for row in rows if len(set((row["placement"] or {}).values())) > 1]
    splits = [row for row in mixed if row["speedup_vs_best_single"] is not None]
    if not splits:
        return "No split was measured."
    fastest = max(splits, key=lambda row: row["speedup_vs_best_single"])
    if not one_device_holds_the_model:
        return f"No single device holds the model; {fastest['label']} is the fastest split."
    gains = {label: _median_gain(mine) for label, mine in group_by("label", rows).items()}
    winners = {label: gain for label, gain in gains.items() if gain is not None}
    if winners:
        best_first = sorted(winners, key=lambda label: -winners[label])
        listed = "; ".join(f"{label} by {100 * winners[label]:.1f} %" for label in best_first)
        return f"Faster than the best single device: {listed}."
    doubtful = [row for row in splits if row["doubt"]]
    if doubtful:
        return UNDECIDED.format("a split beats the best single device", doubtful[0]["doubt"])
    if any(row["beats_best_single"] == YES for row in rows):
        return "No agent beats the best single device in most of its runs."
    if fastest["beats_best_single"] == WITHIN_NOISE:
        label = fastest["label"]
        return f"No split beats the best single device; {label} equals it within noise."
    return "No split beats the best single device."


def count_wins(rows: Rows) -> int:
    """Runs whose finalist beats the best single device by more than the noise."""
    return sum(row["beats_best_single"] == YES for row in rows)


def count_doubtful(rows: Rows) -> int:
    """Runs whose finalist's measurement decides nothing."""
    return sum(bool(row["doubt"]) for row in rows)


def _median_gain(rows: Rows) -> float | None:
    """The median gain of all runs, if more than half of them win."""
    known = [row["speedup_vs_best_single"] for row in rows if row.get("speedup_vs_best_single")]
    return float(np.median(known)) - 1.0 if 2 * count_wins(rows) > len(rows) else None
