"""The command ``placement-gym view``."""

from __future__ import annotations

import argparse
import json

from placement_gym.cli.options import add_json, add_model, add_out, set_command
from placement_gym.cli.parser import Command, describe
from placement_gym.cli.values import positive_integer


def add_view(command: Command) -> None:
    """Add the command's arguments."""
    describe(
        command,
        "Write one page, which needs no network, to explore placements in a browser: the graph "
        "coloured by device, search, the costs of each unit, a timeline, and what moved between "
        "two placements. The timeline is simulated.",
        "view results/plan-resnet.json",
        "view results --problem 2 --out results/view.html",
    )
    command.add_argument(
        "sources",
        nargs="+",
        metavar="PLACEMENT_OR_RUN",
        help="a placement file, or a folder of results: the fastest run of each agent; the page "
        "compares several",
    )
    add_model(command, required=False, default="the placement's own, if it is built in")
    command.add_argument(
        "--costs",
        help="costs of the simulated timeline: analytic, profiled, or a cost table's file "
        "(default: those of the run, else analytic)",
    )
    command.add_argument(
        "--schedule", help="preset of the simulated timeline (default: that of the run)"
    )
    command.add_argument(
        "--problem", type=positive_integer, help="which problem of a folder that has several"
    )
    add_out(command, "view.html", file="page")
    add_json(command)
    set_command(command, run_view, "nothing is kept; the same command writes the page")


def run_view(options: argparse.Namespace) -> int:
    from placement_gym.files import check_output_file, name_output_file, write_text
    from placement_gym.progress import progress_bar
    from placement_gym.view.data import make_view_data
    from placement_gym.view.page import render_page
    from placement_gym.view.sources import open_scene

    out = check_output_file(name_output_file(options.out, "view.html"))
    with progress_bar(None, "", options.quiet, description="drawing the page"):
        scene = open_scene(
            options.sources, options.model, options.costs, options.schedule, options.problem
        )
        write_text(out, render_page(make_view_data(scene)), follow=True)
    print(json.dumps({"file": str(out)}) if options.json else f"{out}: open it in a browser")
    return 0
