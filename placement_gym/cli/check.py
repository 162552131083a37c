"""The command ``placement-gym check``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from placement_gym.cli.options import add_model, add_out, add_shared, call, set_command
from placement_gym.cli.parser import Command, describe

if TYPE_CHECKING:
    from rich.console import Group

MAX_OPERATORS = 20
"""Operators of a device that the table shows without ``--verbose``."""
MAX_NAME = 27
"""Characters of an operator's name that it shows: rows fit 80 columns."""


def add_check(command: Command) -> None:
    describe(
        command,
        "Find the operators that a device refuses or computes wrongly: run the model on each "
        "device alone and compare its outputs with those of the CPU in f32. FOLDER gets "
        "check-MODEL-constraints.json for `plan --constraints`. This takes about a dozen "
        "compilations of the model.",
        "check -m my_model.xml -d NPU",
        "check -m my_model.xml -d GPU,NPU --tolerance 0.01",
        failure="a device refused operators, or computed them wrongly",
    )
    add_model(command)
    add_shared(command, "--shape", "--inputs", "--scenario", "--extension")
    add_shared(command, "--devices", "--tolerance")
    add_out(command)
    set_command(command, run_check, "nothing is kept; rerun the command to check again")


def run_check(options: argparse.Namespace) -> int:
    from placement_gym.cli.tables import print_result
    from placement_gym.deployment import check

    document = call(check, options)
    print_result(options, document, lambda: check_table(document, options.verbose))
    rows = document["devices"]
    return int(any(row["operators"] or not (row["confirmed"] or row["skipped"]) for row in rows))


def check_table(document: Mapping[str, Any], verbose: bool = False) -> Group:
    from rich.console import Group

    from placement_gym.base import Column, FittedTable, FittedText

    shown = None if verbose else MAX_OPERATORS
    table = FittedTable(
        [
            Column("device", text=True, whole=True),
            Column("operator", text=True, whole=True),
            Column("type", text=True, whole=True, spare=1),
            Column("fault", text=True, whole=True, meaning="does not run, or its outputs differ"),
            Column("own error", meaning="relative error, given right inputs"),
        ]
    )
    for row in document["devices"]:
        for operator in row["operators"][:shown]:
            # Names differ at their ends.
            name, error = operator["name"], operator["error"]
            if not verbose and len(name) > MAX_NAME:
                name = f"...{name[3 - MAX_NAME :]}"
            cells = name, operator["type"], operator["fault"]
            table.add_row(row["name"], *cells, "-" if error is None else f"{error:.1e}")
    rules = dict.fromkeys(rule for row in document["devices"] for rule in row["rules"])
    texts = [line for row in document["devices"] for line in describe_device(row, shown)]
    faults = any(row["operators"] for row in document["devices"])
    end = f"{document['n_operators']} operators checked in {document['wall_s']:.0f} s."
    if document["file"]:
        end += f" To plan without these: --constraints {document['file']}"
    elif all(row["confirmed"] for row in document["devices"]):
        end += " No operator has to be kept off a device."
    return Group(
        *map(FittedText, [*rules, *texts]), *([table] if faults else []), FittedText(end, "dim")
    )


def describe_device(row: Mapping[str, Any], shown: int | None = MAX_OPERATORS) -> Iterator[str]:
    """Describe a device: its result alone, the operators at fault, and their cost."""
    name, n = row["name"], len(row["operators"])
    if row["skipped"]:
        yield f"{name}: {row['skipped']}."
        return
    if row["refusal"]:
        description = f"refuses the model: {row['refusal']}"
    elif row["error"] is None:
        description = "outputs are not finite, or it supports no operator"
    elif not row["compared_outputs"]:
        description = "runs the model, whose outputs are random"
    else:
        description = f"outputs differ from those of {row['reference']} by {row['error']:.1e}"
    limit = f"{row['tolerance']:.1e} allowed"
    yield f"{name}: {description} ({limit}; {row['compilations']} compilations)"
    if random := row["random_outputs"]:
        yield (
            f"{name}: {random} of {random + row['compared_outputs']} outputs are random and were "
            "not compared; each operator was, with the reference's activations"
        )
    if n:
        outcome = "run there" if row["confirmed"] else "were not all checked there"
        yield f"{name}: {n} operator{'s' * (n > 1)} at fault; all others {outcome}"
        if row["alone_ms"] is not None:
            yield (
                f"{name}: simulated {row['alone_ms']:.3g} ms alone, {row['kept_off_ms']:.3g} ms "
                f"with these on {row['reference']}, in {row['n_submodels']} submodels"
            )
    elif row["adds_up"]:
        yield (
            f"{name}: no operator alone exceeds the tolerance, but rounding errors add up; "
            "--tolerance allows more"
        )
    elif not row["confirmed"]:
        yield f"{name}: the operators at fault were not found"
    if shown is not None and n > shown:
        yield f"{name}: the first {shown} of {n} are shown; --verbose and --json list all"
