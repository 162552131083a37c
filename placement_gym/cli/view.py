"""The command ``placement-gym view``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from placement_gym.cli.options import add_model, add_shared, call, print_json, set_command
from placement_gym.cli.parser import Command, describe
from placement_gym.cli.values import positive_integer


def add_view(command: Command) -> None:
    describe(
        command,
        "Write an HTML page to explore placements in a browser, without a network: the graph "
        "coloured by device, the costs of each unit, a simulated timeline, and the differences "
        "between two placements.",
        "view results/plan-resnet.json",
        "view results --problem 2 --out results/view.html",
    )
    command.add_argument(
        "sources",
        nargs="+",
        metavar="PLACEMENT_OR_RUN",
        help="a placement file, or a folder of results (the fastest run of each agent); several "
        "are compared",
    )
    add_model(command, required=False, several=True)
    add_shared(command, "--shape", "--extension")
    command.add_argument(
        "--problem",
        type=positive_integer,
        metavar="N",
        help="number of the problem, if the folder has several",
    )
    command.add_argument(
        "--out",
        default="view.html",
        metavar="PATH",
        help="the page, or a folder for it (default: %(default)s)",
    )
    command.add_argument(
        "--picture", metavar="FILE", help="also draw the placement, as .png, .svg or .pdf"
    )
    command.add_argument(
        "--trace", metavar="FILE", help="also write the timelines for ui.perfetto.dev"
    )
    set_command(command, run_view, "nothing is kept; rerun the command to write the page")


def run_view(options: argparse.Namespace) -> None:
    from placement_gym.base import (
        check_output_file,
        make_output_folder,
        name_output_file,
        progress_bar,
        write_text,
    )
    from placement_gym.bench import open_scene
    from placement_gym.view import (
        check_picture_file,
        draw_shown,
        make_trace,
        make_view_data,
        render_page,
    )

    out = name_output_file(options.out, "view.html")
    uses = {
        str(out): "open it in a browser",
        options.picture: "the placement as a picture",
        options.trace: "open it at https://ui.perfetto.dev or chrome://tracing",
    }
    uses.pop(None, None)
    for file in uses:  # before the page is drawn, which takes long
        check_output_file(file)
    if options.picture:
        check_picture_file(options.picture)
    with progress_bar(None, "", options.quiet, description="drawing the page"):
        scene = call(open_scene, options)
        data = make_view_data(scene)
        for file in uses:
            make_output_folder(Path(file).parent)
        write_text(out, render_page(data), follow=True)
        if options.trace:
            write_text(options.trace, json.dumps(make_trace(data)), follow=True)
        if options.picture:
            draw_shown(scene, options.picture)
    if not print_json(options, {"file": str(out), "files": [*uses]}):
        for file, use in uses.items():
            print(f"{file}: {use}")
