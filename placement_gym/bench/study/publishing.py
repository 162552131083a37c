"""Published rows of a study, compressed."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

from placement_gym.base import UserError, make_output_folder, write_bytes
from placement_gym.bench.run import PACKED_ROWS, ROWS, Json, load_runs
from placement_gym.bench.study.spec import Study
from placement_gym.bench.study.task import expand_variables


def publish_rows(study: Study, results: str | Path, out: str | Path) -> tuple[Path, int]:
    """Write the rows of a study as ``results.jsonl.xz``, from which reports and replays read.

    Returns:
        The file, and how many of the study's runs it lacks.

    Raises:
        UserError: There are no results of this study, or the file cannot be written.
    """
    by_key = {row["key"]: row for row in load_runs(Path(results))}
    tasks = study.tasks()
    rows = [make_portable(by_key[task.key]) for task in tasks if task.key in by_key]
    if not rows:
        raise UserError(f"{results} has no {ROWS} with rows of this study: run it first")
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path = make_output_folder(out) / PACKED_ROWS
    write_bytes(path, lzma.compress(lines.encode(), preset=9 | lzma.PRESET_EXTREME))
    return path, len(tasks) - len(rows)


def make_portable(row: Json) -> Json:
    """The row without the machine's name, with the model's path as the study names it."""
    model = json.loads(row["problem"])[2]
    error = row["error"]
    if "$" in model:
        error = error.replace(expand_variables(model), model)
    env_kwargs = row["env_kwargs"] | {"model": model}
    return row | {"host": "", "env_kwargs": env_kwargs, "error": error}
