"""The command that writes a placement for programs that know OpenVINO alone."""

from __future__ import annotations

import argparse

from placement_gym.cli.options import Command, add_shapes, set_command


def add_export(command: Command) -> None:
    """Add the arguments of ``placement-gym export``."""
    command.add_argument("placement", metavar="PLACEMENT", help="a placement file")
    command.add_argument(
        "--model", help="the model it was made for (default: the built-in one that it names)"
    )
    add_shapes(command)
    command.add_argument(
        "--split", default="auto", help="auto, alias or hetero (default: %(default)s)"
    )
    command.add_argument(
        "--out", default="exported", help="folder for the files (default: %(default)s)"
    )
    set_command(command, run_export, "files that were written are complete")


def run_export(options: argparse.Namespace) -> int:
    from placement_gym.tools.export import export_placement

    files = export_placement(
        options.placement, options.out, options.model, options.shape, options.split
    )
    for path in files:
        print(path)
    return 0
