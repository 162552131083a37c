"""The command ``placement-gym``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from placement_gym.cli.bench import add_bench
from placement_gym.cli.compare import add_compare
from placement_gym.cli.export import add_export
from placement_gym.cli.measure import (
    add_evaluate,
    add_fidelity,
    add_list_devices,
    add_plan,
    add_profile,
)
from placement_gym.cli.sequential import add_place, add_pretrain
from placement_gym.cli.view import add_view
from placement_gym.errors import PlacementGymError
from placement_gym.texts import make_lines_printable
from placement_gym.version import VERSION


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; a user's error ends it with one line.

    Args:
        arguments: The words after the command's name; None means those of the process.

    Returns:
        Exit status: 0; 1 if runs failed or rows are not valid; 2 after a user's error; 130 after
        an interrupt.
    """
    options = make_parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        return status
    except PlacementGymError as error:
        print(f"placement-gym: {make_lines_printable(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        kept = str(interrupt) or options.kept.format(**vars(options))
        print(f"placement-gym: interrupted: {make_lines_printable(kept)}", file=sys.stderr)
        return 130


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="placement-gym",
        description="Plan, measure and compare placements of a neural network on devices.",
    )
    top.add_argument("--version", action="version", version=VERSION)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    add_compare(commands.add_parser("compare", help="compare agents on one model"))
    add_evaluate(commands.add_parser("evaluate", help="measure a saved placement again"))
    add_plan(commands.add_parser("plan", help="find the placement to deploy, in a minute"))
    add_export(commands.add_parser("export", help="write a placement for OpenVINO alone"))
    add_place(commands.add_parser("place", help="place a model with the sequential placer"))
    add_pretrain(commands.add_parser("pretrain", help="train the sequential placer"))
    add_view(commands.add_parser("view", help="write a page to explore placements in a browser"))
    add_profile(commands.add_parser("profile", help="measure this machine's costs of a model"))
    add_fidelity(commands.add_parser("fidelity", help="compare the simulator with measurements"))
    add_bench(commands.add_parser("bench", help="run, report and validate studies"))
    add_list_devices(
        commands.add_parser("devices", help="list this machine's devices and the presets")
    )
    return top
