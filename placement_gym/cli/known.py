"""The command ``placement-gym bench known``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from placement_gym.cli.options import output_of, print_json, set_command
from placement_gym.cli.parser import Command, describe
from placement_gym.cli.values import positive_seconds

if TYPE_CHECKING:
    from placement_gym.base.fitted_table import FittedTable
    from placement_gym.bench.known.best_known import BestKnown
    from placement_gym.bench.known.update import Change


def add_known(command: Command) -> None:
    describe(
        command,
        "List the best known latency of each problem of the standard studies, or replace it where "
        "a replay confirms a faster placement.",
        "bench known",
        "bench known --update results/paper",
    )
    changes = command.add_mutually_exclusive_group()
    changes.add_argument(
        "--update",
        metavar="FOLDER",
        help="take faster placements from this folder's results.jsonl, if a replay confirms them",
    )
    changes.add_argument(
        "--bounds", action="store_true", help="compute all lower bounds again and keep higher ones"
    )
    command.add_argument(
        "--time-limit",
        type=positive_seconds,
        default=10.0,
        metavar="SECONDS",
        help="for one lower bound (default: %(default)s)",
    )
    set_command(command, run_known, "every problem that was printed is kept")


def run_known(options: argparse.Namespace) -> int:
    from placement_gym.bench.known import best_known
    from placement_gym.bench.known.update import update_bounds, update_values
    from placement_gym.cli.tables import print_result

    if not options.update and not options.bounds:
        values = best_known.load_values(best_known.VALUES)
        print_result(
            options, {value.name: value.latency_ms for value in values}, lambda: known_table(values)
        )
        return 0
    limit_s = options.time_limit
    changes = (
        update_bounds(time_limit_s=limit_s, quiet=options.quiet)
        if options.bounds
        else update_values(options.update, time_limit_s=limit_s, quiet=options.quiet)
    )
    n_problems = changed = 0
    for change in changes:
        n_problems, changed = n_problems + 1, changed + (change.after is not change.before)
        for line in describe_change(change):
            print(line, file=output_of(options), flush=True)
    document = {"problems": n_problems, "changed": changed, "file": str(best_known.VALUES)}
    if not print_json(options, document):
        print(f"{changed} of {n_problems} problems changed in {best_known.VALUES}")
    return 0


def known_table(values: Sequence[BestKnown]) -> FittedTable:
    """A line for each problem."""
    from placement_gym.base.fitted_table import Column, FittedTable

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
    from placement_gym.bench.known.best_known import name_problem

    name, earlier, value = name_problem(change.problem), change.before, change.after
    if value is not None and value is not earlier:
        was = f"{earlier.latency_ms:.6g} ms, {describe_bound(earlier)}" if earlier else "not known"
        summary = f"{value.latency_ms:.6g} ms, {describe_bound(value)}, by {value.origin}"
        yield f"{name}: was {was}; is {summary}"
    if change.note:
        yield f"{name}: not taken: {change.note}"
