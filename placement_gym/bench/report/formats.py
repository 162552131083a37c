"""Formats of speed-ups and gaps in reports."""

from __future__ import annotations

from collections.abc import Sequence

from placement_gym.bench.report.known_latencies import KnownLatencies
from placement_gym.bench.run.rows import Json

GAP_LEGEND = (
    "gap: how far a latency is above the proven optimum, or with ≤ at most, above a bound that no "
    "placement is below"
)

INFEASIBLE_LEGEND = (
    "infeas.: share of the evaluations whose placement did not fit or run; in brackets, of those "
    "whose placement did not fit as proposed and was repaired first"
)


def format_infeasible(rows: Sequence[Json]) -> str:
    """The share of infeasible evaluations of some runs, and of repaired ones if there are any."""
    evaluations = sum(row["evaluations"] for row in rows)
    if not evaluations:
        return "-"
    infeasible, repaired = (
        sum(row[field] or 0 for row in rows) / evaluations for field in ("infeasible", "repaired")
    )
    return f"{infeasible:.0%}" + (f" ({repaired:.0%})" if repaired else "")


def format_ratio(speedup: float, noise: float) -> str:
    """A speed-up with its uncertainty, if it has one."""
    return f"{speedup:.3f} ±{speedup * noise:.3f}" if noise else f"{speedup:.3f}"


def format_gap(latency_ms: float, known: KnownLatencies) -> str:
    """Format how far a latency is above the optimum, or with ``≤`` how far at most."""
    least = known.optimum_ms or known.bound_ms
    if not least:
        return "-"
    sign = "" if known.optimum_ms else "≤ "
    return f"{sign}{100 * max(latency_ms / least - 1, 0.0):.1f} %"
