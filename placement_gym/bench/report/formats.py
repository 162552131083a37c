"""How reports write a speed-up and a gap."""

from __future__ import annotations

from placement_gym.bench.report.known_latencies import KnownLatencies

GAP_LEGEND = (
    "gap: how far a latency is above the proven optimum, or with ≤ at most, above a bound that no "
    "placement is below"
)


def format_ratio(speedup: float, noise: float) -> str:
    """A speed-up with its uncertainty, if it has one."""
    return f"{speedup:.3f} ±{speedup * noise:.3f}" if noise else f"{speedup:.3f}"


def format_gap(latency_ms: float, known: KnownLatencies) -> str:
    """How far a latency is above the optimum, or with ``≤`` how far at most."""
    least = known.optimum_ms or known.bound_ms
    if not least:
        return "-"
    sign = "" if known.optimum_ms else "≤ "
    return f"{sign}{100 * max(latency_ms / least - 1, 0.0):.1f} %"
