"""Interactive views of the placements of a report, in a folder beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from placement_gym.base.files import write_text
from placement_gym.bench.report.document import Link, Text
from placement_gym.bench.run.rows import Json
from placement_gym.bench.scenes import open_runs
from placement_gym.view.data import make_view_data
from placement_gym.view.page import render_page

FOLDER = "views"
MOST_UNITS = 20_000
"""Pages of larger models take long to write; ``placement-gym view`` writes one."""


def write_view(rows: Sequence[Json], folder: Path, number: int, n_units: int) -> Link | Text:
    """Write the page of a problem's placements, the fastest of each agent.

    Args:
        rows: The problem's runs.
        folder: Of the report.
        number: Of the problem.
        n_units: Of the model.

    Returns:
        A link to the page; a note if there is none, which must not cost the report.
    """
    if n_units > MOST_UNITS:
        return Text(f"{n_units:,} units: placement-gym view writes the interactive page.")
    path = f"{FOLDER}/problem-{number}.html"
    try:
        page = render_page(make_view_data(open_runs(rows)))
        (folder / FOLDER).mkdir(exist_ok=True)
        write_text(folder / path, page)
    except Exception as error:
        return Text(f"There is no interactive view: {error}")
    return Link("Explore these placements: graph, timeline and comparison", path)
