"""The command ``placement-gym report-machine``."""

from __future__ import annotations

import argparse

from placement_gym.cli.options import add_devices, add_model, set_command
from placement_gym.cli.parser import Command, describe


def add_report_machine(command: Command) -> None:
    """Add the command's arguments."""
    describe(
        command,
        "Write what this machine's devices report and do to one file: `check` of three models, and "
        "of the first one a plan, a profile, and the fidelity of thirty placements. It takes ten "
        "minutes at most: a part that takes more than its share is stopped, and the file says so. "
        "It names neither user nor host, nor a path: read it, and send it.",
        "report-machine my-gpu.json -d GPU,CPU",
        "report-machine my-gpu.json -d GPU,CPU -m resnet -m my_model.xml",
        failure="a part of the report is an error",
    )
    command.add_argument("file", metavar="FILE", help="the JSON file to write")
    add_model(command, required=False, default="resnet, gpt and mobilenet", several=True)
    add_devices(command)
    set_command(command, run_report_machine, "nothing is kept: the same command starts again")


def run_report_machine(options: argparse.Namespace) -> int:
    from rich.console import Group

    from placement_gym.base.fitted_table import FittedText, word_table
    from placement_gym.cli.tables import print_result
    from placement_gym.deployment.machine_report import MODELS, report_machine

    argument = options.model or list(MODELS)
    models = argument if isinstance(argument, list) else [argument]
    document = report_machine(options.file, options.devices, models, quiet=options.quiet)
    errors = {name: document[name].get("error", "") for name in document["seconds"]}

    def make() -> Group:
        rows = [
            (f"{name}, {s:.0f} s", errors[name] or "done")
            for name, s in document["seconds"].items()
        ]
        end = f"{options.file} was written in {document['wall_s']:.0f} s."
        return Group(word_table(("part", "outcome"), rows, "Report"), FittedText(end, "dim"))

    print_result(options, document, make)
    return int(any(errors.values()))
