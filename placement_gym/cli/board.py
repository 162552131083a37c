"""The commands ``placement-gym bench board`` and ``placement-gym bench list``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placement_gym.cli.options import add_out, set_command
from placement_gym.cli.parser import Command, describe

if TYPE_CHECKING:
    from placement_gym.base.fitted_table import FittedTable

WORDS = ("agent", "commit", "folder", "study", "last")
"""Columns of words."""
BOARD = {"built-in models": 2, "generated graphs": 3, "limited memory": 4, "infeas.": 5}
LIST = {"problems": 1, "agents": 2, "failed": 3}
"""Columns that a narrow terminal leaves out, the largest number first."""


def add_board(command: Command) -> None:
    describe(
        command,
        "Replay the rows of a fixed set of problems and write board.md and board.html: the agents "
        "that have a valid row of each run, the best first.",
        "bench board docs/results/board results/mine --out results/board",
        failure="a row is not valid, or an agent lacks runs",
    )
    command.add_argument(
        "results", nargs="+", metavar="RESULTS", help="folders of rows, with those below them"
    )
    command.add_argument(
        "--set",
        default="placement-bench-1",
        metavar="STUDY",
        help="the study that is the set (default: %(default)s)",
    )
    add_out(command)
    set_command(command, run_board, "the rows are kept; rerun the command to write the page")


def add_list(command: Command) -> None:
    describe(
        command,
        "List the folders of results below a folder: their studies, rows, agents and problems, "
        "when they ran, and how many runs are missing.",
        "bench list results",
        "bench list results --page",
    )
    command.add_argument(
        "results",
        nargs="?",
        default="results",
        metavar="FOLDER",
        help="where to look (default: %(default)s)",
    )
    command.add_argument(
        "--page", action="store_true", help="also write FOLDER/index.html, which links the reports"
    )
    set_command(command, run_list, "the results are kept")


def run_board(options: argparse.Namespace) -> int:
    from rich.console import Group

    from placement_gym.base.fitted_table import FittedText
    from placement_gym.bench.board.page import rank_entries, write_board
    from placement_gym.cli.tables import print_result

    entries = write_board(options.results, options.out, options.set, options.quiet)
    lines, path = rank_entries(entries.results), f"{options.out}/board.html"

    # Made only if the answer is not JSON.
    def make() -> Group:
        left_out = [FittedText(line, "red") for line in entries.left_out]
        return Group(make_table(BOARD, lines), *left_out, FittedText(path))

    print_result(options, {"agents": lines, "left_out": entries.left_out, "file": path}, make)
    return 1 if entries.left_out else 0


def run_list(options: argparse.Namespace) -> int:
    from rich.console import Group

    from placement_gym.base.fitted_table import FittedText
    from placement_gym.bench.folders import ResultFolder, find_folders, write_index
    from placement_gym.cli.tables import print_result

    folders = [ResultFolder.load(path) for path in find_folders(options.results)]
    lines = [folder.describe() for folder in folders]
    file = str(write_index(options.results, folders)) if options.page else ""
    print_result(
        options,
        {"folders": lines, "file": file},
        lambda: Group(make_table(LIST, lines), FittedText(file)),
    )
    return 0


def make_table(spare: Mapping[str, int], lines: Sequence[Mapping[str, Any]]) -> FittedTable:
    """A table of lines as cells by column; those with the largest number are left out first."""
    from placement_gym.base.fitted_table import Column, FittedTable

    names = dict.fromkeys(name for line in lines for name in line)
    words = [name for name in names if name in WORDS]
    table = FittedTable(
        [Column(name, spare.get(name, 0), name in WORDS, whole=name == words[0]) for name in names]
    )
    for line in lines:
        table.add_cells({name: "-" if cell is None else str(cell) for name, cell in line.items()})
    return table
