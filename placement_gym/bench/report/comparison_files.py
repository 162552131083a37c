"""The files of a comparison: its document, table, placements and pictures."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.base import UserError, is_file, replace_files, safe_name, write_json, write_text
from placement_gym.base.schemas import ComparisonFields, check, load_json
from placement_gym.bench.report.comparison import Document, format_markdown, heading
from placement_gym.bench.run import SINGLE_DEVICE, BenchEnv, Json
from placement_gym.problem import Placement, parse_assignment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE = "comparison.json"
PLAIN_LABEL = re.compile(r"\w+([ -]\w+)*")
"""A label that a file's name can hold unchanged but for spaces, each of which becomes ``--``."""
TITLE_LETTERS = 92
"""Length of a note up to which it is printed on pictures; longer ones are next to the table."""


def describe_replaced(document: Document, folder: Path) -> list[str]:
    """Describe the comparison that is overwritten in the folder, if it was of other runs."""
    if not is_file(folder / FILE):
        return []
    try:
        replaced = check(ComparisonFields, load_json(folder / FILE))
    except UserError as error:
        return [f"{FILE} was damaged and is replaced ({error}); its rows stay in results.jsonl."]
    keys = {row["key"] for row in document["rows"]}
    if {row.key for row in replaced.rows} <= keys:
        return []
    return [
        f"The table, placements and pictures replace those of {replaced.model} on "
        f"{', '.join(replaced.devices)} ({replaced.env}), whose rows stay in results.jsonl."
    ]


def write_comparison(document: Document, folder: Path) -> None:
    """Write ``comparison.json`` and ``table.md``."""
    with replace_files(folder) as new_folder:
        write_json(new_folder / FILE, document)
        write_text(new_folder / "table.md", format_markdown(document))


def draw_runs(document: Document, folder: Path) -> list[str]:
    """Draw ``comparison`` and ``best-so-far``, if a run succeeded.

    Returns:
        A note for each picture that could not be drawn.
    """
    from placement_gym.view.figures import draw_best_so_far, draw_comparison, draw_if_possible

    rows = _name_seeds(document["rows"])
    if not any(row["latency_ms"] for row in rows):
        return []
    short = (note for note in document["notes"] if len(note) <= TITLE_LETTERS)
    title = "\n".join([heading(document), *short])
    searched = [row for row in document["rows"] if row["agent"] != SINGLE_DEVICE]
    searched.sort(key=lambda row: -(row["speedup"] or 0.0))
    reference_ms, alone_ms = document["reference_ms"], document["best_single_ms"]
    limits = list_limits(document, reference_ms)
    if alone_ms and reference_ms / alone_ms < 0.98 * min([*limits.values(), np.inf]):
        limits["best single device"] = reference_ms / alone_ms
    over = list_limits(document, alone_ms or reference_ms)
    figures = {"comparison": partial(draw_comparison, rows, title, over, not alone_ms)}
    if any(row["curve"] for row in searched):
        figures["best-so-far"] = partial(draw_best_so_far, searched, title, limits)
    notes = [draw_if_possible(draw, folder / f"{name}.png") for name, draw in figures.items()]
    return [note for note in notes if note]


def list_limits(document: Document, base_ms: float | None) -> dict[str, float]:
    """Return what no placement exceeds, by name, as speed-ups over a latency."""
    if not base_ms:
        return {}
    values = {"optimum": document["optimum_ms"], "bound": document["bound_ms"]}
    ratios = {name: base_ms / value for name, value in values.items() if value}
    return dict([*ratios.items()][:1])


def _name_seeds(rows: Sequence[Json]) -> list[Json]:
    """Rows whose labels state the seed where there are several."""
    labels = [row["label"] for row in rows]
    several = {label for label in labels if labels.count(label) > 1}
    return [
        row | {"label": f"{row['label']}, seed {row['seed']}"} if row["label"] in several else row
        for row in rows
    ]


def save_placement(bench_env: BenchEnv, row: Json, folder: Path) -> None:
    """Write the finalist of a row as a placement file, if there is one."""
    if row["placement"] is None:
        return
    base = bench_env.base
    assignment = parse_assignment(row["placement"], base.problem)
    placement, file = Placement.of(base.problem, assignment, base.graph), _file_of(row, folder)
    placement.save(file, follow=False)


def draw_placements(
    bench_env: BenchEnv, rows: Sequence[Json], new: Collection[str], folder: Path
) -> list[str]:
    """Draw the finalists of new runs, and of others whose picture is missing.

    Returns:
        A note for each picture that could not be drawn: it must not cost the results.
    """
    from placement_gym.view.figures import draw_if_possible

    notes = []
    for row in rows:
        path = _file_of(row, folder, ".png")
        if row["placement"] is not None and (row["key"] in new or not path.exists()):
            notes.append(draw_if_possible(partial(draw_finalist, bench_env, row), path))
    return [note for note in notes if note]


def draw_finalist(bench_env: BenchEnv, row: Json) -> Figure:
    """The finalist of a row on its graph."""
    from placement_gym.view.figures import draw_placement

    problem, result = bench_env.base.problem, "failed"
    if row["latency_ms"] is not None:
        result = f"{row['latency_ms']:.4g} ms"
        if bench_env.one_device_holds_the_model:
            result = f"{row['speedup_vs_best_single']:.3f} x the best single device"
    assignment = parse_assignment(row["placement"], problem)
    return draw_placement(problem, assignment, f"{row['model']}, {row['label']}: {result}")


def _file_of(row: Json, folder: Path, suffix: str = ".json") -> Path:
    label, plain = row["label"], PLAIN_LABEL.fullmatch(row["label"])
    stem = label.replace(" ", "--") if plain else label
    name = safe_name(f"{row['model']}-{stem}-seed{row['seed']}".replace(".", "-"))
    if not plain:  # or "annealing 1.5" would share the file of "annealing 1-5"
        name += f"-{hashlib.sha256(label.encode(errors='backslashreplace')).hexdigest()[:8]}"
    return folder / f"{name}{suffix}"
