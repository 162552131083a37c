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
    command.add_argument(
        "--picture", metavar="FILE", help="also draw the placement, as .png, .svg or .pdf"
    )
    command.add_argument(
        "--trace", metavar="FILE", help="also write the timelines as a trace for ui.perfetto.dev"
    )
    command.add_argument(
        "--node-data",
        metavar="FILE",
        help="also write each node's time and device as node data for Model Explorer",
    )
    set_command(command, run_view, "nothing is kept; the same command writes the page")


def run_view(options: argparse.Namespace) -> int:
    import json

    from placement_gym.files import check_output_file, write_text
    from placement_gym.view.data import make_view_data
    from placement_gym.view.exports import make_node_data, make_trace
    from placement_gym.view.page import render_page
    from placement_gym.view.picture import check_picture_file, draw_shown
    from placement_gym.view.sources import open_scene

    further = [options.picture, options.trace, options.node_data]
    for file in (options.out, *filter(None, further)):
        check_output_file(file)
    if options.picture:
        check_picture_file(options.picture)
    scene = open_scene(
        options.sources, options.model, options.costs, options.schedule, options.problem
    )
    data = make_view_data(scene)
    write_text(options.out, render_page(data), follow=True)
    print(f"{options.out}: open it in a browser")
    if options.trace:
        write_text(options.trace, json.dumps(make_trace(data)), follow=True)
        print(f"{options.trace}: open it at https://ui.perfetto.dev or chrome://tracing")
    if options.node_data:
        write_text(options.node_data, json.dumps(make_node_data(scene, data)), follow=True)
        print(f"{options.node_data}: add it to the model in Model Explorer as per-node data")
    if options.picture:
        draw_shown(scene, options.picture)
        print(options.picture)
    return 0
