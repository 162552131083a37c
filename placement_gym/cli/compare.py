"""The command ``placement-gym compare``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from placement_gym.cli.options import (
    Command,
    add_devices,
    add_json,
    add_model,
    add_out,
    add_pictures,
    add_scenario,
    add_settings,
    add_shapes,
    parse_seeds,
    set_command,
)

TABLE_WIDTH = 120
SINGLE_DEVICE = "single-device"


def add_compare(command: Command) -> None:
    """Add the command's arguments."""
    add_model(command)
    add_shapes(command)
    add_scenario(command)
    command.add_argument(
        "--env", default="DevicePlacement-v0", help="environment id (default: %(default)s)"
    )
    add_devices(command)
    command.add_argument(
        "--agents",
        help="comma-separated names or module:attribute (random, random-blocks, prefix, window "
        "and, where latencies are measured, OpenVINO's own choice); every single device is "
        "always in the table",
    )
    command.add_argument(
        "--budget", type=int, default=10, help="evaluations per run (default: %(default)s)"
    )
    command.add_argument(
        "--seeds",
        type=parse_seeds,
        default="0",
        help="comma-separated seeds and ranges, as in 0,1,2 or 0-2 (default: %(default)s)",
    )
    add_settings(
        command,
        "a further argument of gym.make, as JSON or text",
    )
    add_out(command)
    add_pictures(command)
    add_json(command)
    set_command(
        command, run_compare, "finished runs are kept in {out}/; rerun the command to continue"
    )


def run_compare(options: argparse.Namespace) -> int:
    from rich.console import Console

    from placement_gym.bench.compare import compare
    from placement_gym.bench.report.comparison import comparison_table

    document = compare(
        model=options.model,
        agents=[name.strip() for name in options.agents.split(",")] if options.agents else None,
        env_id=options.env,
        devices=options.devices,
        budget=options.budget,
        seeds=options.seeds,
        out=options.out,
        env_kwargs=dict(options.set) | shape_arguments(options),
        pictures=options.pictures,
    )
    if options.json:
        print(json.dumps(document))
    elif document["rows"]:
        wide = Console(width=None if sys.stdout.isatty() else TABLE_WIDTH)
        wide.print(comparison_table(document))
        print(f"Rows, table, picture and placements are in {options.out}/")
    if document["interrupted"]:
        raise KeyboardInterrupt(
            f"{len(document['rows'])} finished runs are in {options.out}/results.jsonl; "
            "rerun the command to continue"
        )
    return 1 if any(map(has_failed, document["rows"])) else 0


def shape_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of ``gym.make`` that ``--shape`` and ``--scenario`` give, if they are given."""
    given = {"shapes": options.shape, "scenario": options.scenario}
    return {key: value for key, value in given.items() if value}


def has_failed(row: Mapping[str, Any]) -> bool:
    """Whether a run failed; a single device that cannot hold the model is a result."""
    return bool(row["error"]) and row["agent"] != SINGLE_DEVICE
