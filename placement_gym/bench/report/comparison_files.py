"""The files of a comparison: its document, table and placements."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from placement_gym.base.errors import UserError
from placement_gym.base.files import is_file, safe_name, write_text
from placement_gym.base.json_file import write_json
from placement_gym.base.schemas.files import ComparisonFields
from placement_gym.base.schemas.reading import check, load_json
from placement_gym.bench.report.comparison import Document, format_markdown
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.rows import Json
from placement_gym.problem.placement import Placement, parse_assignment

FILE = "comparison.json"
PLAIN_LABEL = re.compile(r"\w+([ -]\w+)*")
"""A label that a file's name can hold as it is, but for spaces, each of which becomes ``--``."""


def describe_replaced(document: Document, folder: Path) -> list[str]:
    """Describe the comparison that is overwritten in the folder, if it was of other runs."""
    if not is_file(folder / FILE):
        return []
    try:
        before = check(ComparisonFields, load_json(folder / FILE))
    except UserError as error:
        return [f"{FILE} was damaged and is replaced ({error}); its rows stay in results.jsonl."]
    keys = {row["key"] for row in document["rows"]}
    if {row.key for row in before.rows} <= keys:
        return []
    return [
        f"The table and placements replace those of {before.model} on "
        f"{', '.join(before.devices)} ({before.env}), whose rows stay in results.jsonl."
    ]


def write_comparison(document: Document, folder: Path) -> None:
    """Write ``comparison.json`` and ``table.md``."""
    write_json(folder / FILE, document)
    write_text(folder / "table.md", format_markdown(document))


def save_placement(bench_env: BenchEnv, row: Json, folder: Path) -> None:
    """Write the finalist of a row as a placement file, if there is one."""
    if row["placement"] is None:
        return
    base = bench_env.base
    assignment = parse_assignment(row["placement"], base.problem)
    placement, file = Placement.of(base.problem, assignment, base.graph), _file_of(row, folder)
    placement.save(file, follow=False)


def _file_of(row: Json, folder: Path) -> Path:
    label, plain = row["label"], PLAIN_LABEL.fullmatch(row["label"])
    shown = label.replace(" ", "--") if plain else label
    name = safe_name(f"{row['model']}-{shown}-seed{row['seed']}".replace(".", "-"))
    if not plain:  # or "annealing 1.5" would share the file of "annealing 1-5"
        name += f"-{hashlib.sha256(label.encode(errors='backslashreplace')).hexdigest()[:8]}"
    return folder / f"{name}.json"
