"""The command ``placement-gym view``."""

from __future__ import annotations

import argparse

from placement_gym.cli.options import Command, positive_integer, set_command


def add_view(command: Command) -> None:
    """Add the command's arguments."""
    command.add_argument(
        "sources",
        nargs="+",
        metavar="PLACEMENT_OR_RUN",
        help="a placement file, or a folder of results: the fastest run of each agent; the page "
        "compares several",
    )
    command.add_argument("--model", help="the model, if the placement's own name is no built-in")
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
    command.add_argument(
        "--out", default="view.html", help="the page to write (default: %(default)s)"
    )
    set_command(command, run_view, "nothing is kept; the same command writes the page")


def run_view(options: argparse.Namespace) -> int:
    from placement_gym.files import check_output_file, write_text
    from placement_gym.view.data import make_view_data
    from placement_gym.view.page import render_page
    from placement_gym.view.sources import open_scene

    check_output_file(options.out)
    scene = open_scene(
        options.sources, options.model, options.costs, options.schedule, options.problem
    )
    write_text(options.out, render_page(make_view_data(scene)), follow=True)
    print(f"{options.out}: open it in a browser")
    return 0
