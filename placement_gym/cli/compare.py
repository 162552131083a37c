"""The command ``placement-gym compare``."""

from __future__ import annotations

import argparse
from typing import Any

from placement_gym.base import UserError
from placement_gym.cli.constraints import add_constraints, collect_constraints
from placement_gym.cli.options import add_model, add_out, add_shared, call, set_command
from placement_gym.cli.parser import Command, describe
from placement_gym.cli.values import parse_names, parse_seeds, parse_setting, positive_integer


def add_compare(command: Command) -> None:
    describe(
        command,
        "Compare agents on one model with equal budgets. The placement that each finds is measured "
        "again next to the best single device. FOLDER gets results.jsonl, the table, pictures and "
        "placements; runs that it already has are not repeated. The default takes two to four "
        "minutes. A machine with one device is split as cpu-testbed-limited; simulated "
        "environments take cpu+dgpu.",
        "compare --model resnet",
        "compare -m bert --env DevicePlacementSim-v0 --agents heft,hsdag",
        failure="a run failed",
    )
    add_model(command)
    add_shared(command, "--shape", "--inputs", "--scenario", "--extension")
    command.add_argument(
        "--env",
        dest="env_id",
        default="DevicePlacement-v0",
        metavar="ENV",
        help="environment id (default: %(default)s)",
    )
    add_shared(command, "--devices", "--granularity")
    command.set_defaults(granularity=None)  # the environment's own
    command.add_argument(
        "--agents",
        type=parse_names,
        help="names separated by commas, or module:attribute; `placement-gym agents` lists them "
        "(default: random-blocks, prefix, window and, in a measured environment, OpenVINO's own "
        "choice)",
    )
    command.add_argument(
        "--budget",
        type=positive_integer,
        default=10,
        metavar="N",
        help="placements that an agent may evaluate in a run (default: %(default)s)",
    )
    command.add_argument(
        "--seeds",
        type=parse_seeds,
        default="1",
        help="a number of seeds (5 means 0 to 4), or a list with ranges, as in 0,1,2 or 3-5 "
        "(default: %(default)s)",
    )
    add_constraints(command)
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=parse_setting,
        help="another argument of gym.make, as JSON or text; repeatable",
    )
    add_out(command)
    set_command(command, run_compare, "finished runs are kept; rerun the command to continue")


def run_compare(options: argparse.Namespace) -> int:
    from placement_gym.bench import compare
    from placement_gym.bench.report import comparison_table
    from placement_gym.bench.run import SINGLE_DEVICE
    from placement_gym.cli.tables import print_result

    document = call(compare, options, env_kwargs=env_settings(options))
    if options.json or document["rows"]:
        print_result(options, document, lambda: comparison_table(document, options.verbose))
    if document["rows"] and not options.json:
        print(f"{document['kept']} are in {options.out}/")
    if document["interrupted"]:
        raise KeyboardInterrupt(document["interrupted"])
    # A single device that cannot hold the model is no failure.
    searched = (row for row in document["rows"] if row["agent"] != SINGLE_DEVICE)
    return 1 if any(row["error"] for row in searched) else 0


OPTION_OF = {"shapes": "shape", "constraints": "constraints or --keep-off"}
"""Argument of ``gym.make`` -> its option, if that has another name."""


def env_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Collect arguments of ``gym.make``; ``UserError`` if ``--set`` contradicts an option."""
    names = ("granularity", "shapes", "inputs", "scenario", "extension")
    options_of_env = {name: getattr(options, name) for name in names}
    options_of_env["constraints"] = collect_constraints(options)
    given = {name: value for name, value in options_of_env.items() if value}
    for key, _ in options.set:
        if key in ("model", "devices", *given):
            option = OPTION_OF.get(key, key)
            raise UserError(f"--set {key}=... contradicts --{option}: use --{option} alone")
    return dict(options.set) | given
