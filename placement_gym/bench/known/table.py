"""Tables of best known values and their changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placement_gym.base.fitted_table import Column, FittedTable
from placement_gym.bench.known.best_known import BestKnown, name_problem
from placement_gym.bench.known.update import Change


def known_table(values: Sequence[BestKnown]) -> FittedTable:
    """A line for each problem."""
    table = FittedTable(
        [
            Column("problem", text=True),
            Column("ms"),
            Column("bound / ms"),
            Column("best single, ms", spare=1),
            Column("found by", spare=2, text=True),
        ]
    )
    for value in values:
        single = "none holds it" if value.best_single_ms is None else f"{value.best_single_ms:.6g}"
        table.add_row(
            value.name,
            f"{value.latency_ms:.6g}",
            describe_bound(value),
            "trivial" if value.trivial else single,
            value.origin,
        )
    return table


def describe_bound(value: BestKnown) -> str:
    """The bound as a share of the latency, or that the latency is the optimum."""
    return "optimal" if value.proven else f"{value.bound_ms / value.latency_ms:.3f}"


def describe_change(change: Change) -> Iterator[str]:
    """Lines on what became of a problem; none if nothing did."""
    name, before, after = name_problem(change.problem), change.before, change.after
    if after is not None and after is not before:
        was = f"{before.latency_ms:.6g} ms, {describe_bound(before)}" if before else "not known"
        now = f"{after.latency_ms:.6g} ms, {describe_bound(after)}, by {after.origin}"
        yield f"{name}: was {was}; is {now}"
    if change.note:
        yield f"{name}: not taken: {change.note}"
