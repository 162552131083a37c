"""The command that writes a placement for programs that use OpenVINO alone."""

from __future__ import annotations

import argparse

from placement_gym.cli.options import (
    add_model,
    add_out,
    add_shapes,
    add_split,
    print_json,
    set_command,
)
from placement_gym.cli.parser import Command, describe
from placement_gym.cli.values import positive_integer


def add_export(command: Command) -> None:
    """Add the arguments of ``placement-gym export``."""
    describe(
        command,
        "Write a placement for programs that use OpenVINO alone. FOLDER gets the model; run.py, "
        "which compiles it; and affinities.json, the device of each node, as benchmark_app reads "
        "it.",
        "export results/plan-resnet.json --out deployed",
        "export plan-my_model.json -m my_model.xml --out deployed",
    )
    command.add_argument("placement", metavar="PLACEMENT", help="a placement file")
    add_model(command, required=False, default="the placement's own, if it is built in")
    add_shapes(command)
    add_split(command)
    command.add_argument(
        "--requests",
        type=positive_integer,
        help="requests in flight: run.py also makes a queue of as many, or of a model with state "
        "as many requests (default: none)",
    )
    add_out(command, "deployed", folder="folder for the model and its script")
    set_command(command, run_export, "files that were written are complete")


def run_export(options: argparse.Namespace) -> int:
    from placement_gym.deployment.export import export_placement

    files = export_placement(
        options.placement,
        options.out,
        options.model,
        options.shape,
        options.split,
        requests=options.requests,
    )
    if not print_json(options, [str(path) for path in files]):
        print(*files, sep="\n")
    return 0
