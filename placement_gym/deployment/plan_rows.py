"""The rows of a plan's report: the candidate to save, and the verdict on splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placement_gym.backends import NO, UNDECIDED, WITHIN_NOISE, YES, Measurement, judge_row
from placement_gym.base import EngineError, join_noise
from placement_gym.deployment.candidates import Candidate
from placement_gym.models import Member


def make_rows(
    candidates: Sequence[Candidate],
    measured: Mapping[str, Measurement],
    errors: Mapping[str, str],
    models: Sequence[Member] = (),
) -> list[dict[str, Any]]:
    """Make the rows of the report, fastest first: a measurement or an error for each label."""
    singles = [measured[c.label] for c in candidates if c.alone and c.label in measured]
    best = max(singles, key=lambda single: single.speedup, default=None)
    rows = [
        {
            "label": candidate.label,
            "alone": candidate.alone,
            "also": list(candidate.also),
            "predicted_ms": candidate.predicted_ms,
            "error": errors.get(candidate.label, ""),
            **measured_values(measured.get(candidate.label), best, models),
        }
        for candidate in candidates
    ]
    return sorted(rows, key=rank)


def rank(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return the sort key of a row: speed-ups allow for drift of the machine, times do not."""
    return -(row["speedup"] or 0.0), row["measured_ms"] or float("inf")


def measured_values(
    measurement: Measurement | None, best: Measurement | None, models: Sequence[Member] = ()
) -> dict[str, Any]:
    """Return the measured part of a row; ``best`` is the fastest single device, if any runs."""
    if measurement is None:
        return {
            **dict.fromkeys(("measured_ms", "speedup", "noise", "n_submodels")),
            "warning": "",
            "interference": 0.0,
        }
    return {
        "measured_ms": measurement.latency_ms,
        "speedup": None if best is None else measurement.speedup / best.speedup,
        "noise": join_noise(measurement.noise, 0.0 if best in (None, measurement) else best.noise),
        "n_submodels": measurement.n_submodels,
        "memory_bytes": list(measurement.memory_bytes),
        "held_bytes": list(measurement.held_bytes),
        "warning": measurement.warning or (best.warning if best else ""),
        "interference": max(measurement.interference, best.interference if best else 0.0),
        **measurement.parts_ms,
        **describe_throughput(measurement, models),
    }


def describe_throughput(measurement: Measurement, models: Sequence[Member] = ()) -> dict[str, Any]:
    """Describe results a second and requests in flight; nothing if latency was measured.

    Results of a union are rounds; each of its models has its inferences a second and its median
    latency from start to result.
    """
    if not measurement.requests:
        return {}
    per_s = 1e3 / measurement.latency_ms
    values: dict[str, Any] = {
        "requests_per_s": per_s,
        "requests": measurement.requests,
        "streams": measurement.streams or 1,
    }
    if measurement.models_ms is not None:
        values["models"] = {
            model.name: {"inferences_per_s": model.rate * per_s, "latency_ms": latency_ms}
            for model, latency_ms in zip(models, measurement.models_ms, strict=True)
        }
    return values


def choose(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the label of the row to save.

    Raises:
        EngineError: No candidate ran.
    """
    ran = [row for row in rows if row["measured_ms"] is not None]
    if not ran:
        reasons = "; ".join(f"{row['label']}: {row['error']}" for row in rows)
        raise EngineError(f"no candidate fits into memory and runs ({reasons})")
    singles = [row for row in ran if row["alone"]]
    winners = [row for row in ran if judge_row(row) == YES] if singles else ran
    return str([*winners, *singles][0]["label"])


def find_contender(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the label of the fastest row that may not be slower than the best single device."""
    ran = [row for row in rows if row["measured_ms"] is not None]
    may_win = (row for row in ran if row["speedup"] is None or judge_row(row) != NO)
    return str(next(may_win, {"label": choose(rows)})["label"])


def state_plan_verdict(rows: Sequence[Mapping[str, Any]], label: str) -> str:
    """State in one sentence whether a split pays."""
    winner = next(row for row in rows if row["label"] == label)
    if winner["speedup"] is None:
        return f"No single device holds the model; {label} is the fastest split."
    if winner["alone"]:
        splits = [row for row in rows if not row["alone"] and row["speedup"] is not None]
        doubtful = [row["warning"] for row in splits if row["warning"]]
        if doubtful:
            return UNDECIDED.format(f"a split beats {label}", doubtful[0])
        if not splits:
            return f"No split beats {label}: no other placement was found."
        best = max(splits, key=lambda row: row["speedup"])
        if judge_row(best) == WITHIN_NOISE:
            return f"No split beats {label}; {best['label']} equals it within noise."
        return f"No split beats {label}: the best one, {best['label']}, is {best['speedup']:.2f} x."
    return f"{label} beats the best single device by {100 * (winner['speedup'] - 1):.1f} %."
