"""The check of result rows, of a study's and of a folder's.

A row is replayed in this process, with the model, the files and the variables that it names: check
rows that you trust.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from placement_gym.base import UserError, is_file, progress_bar
from placement_gym.bench.run import OF_STUDIES, ROWS, BenchEnvs, Json, read_columns, read_runs
from placement_gym.bench.study.replay import check_row


@dataclass(frozen=True)
class Replay:
    """The result of replaying one row.

    Attributes:
        key: Key of the row; empty for a line that is no row.
        label: Agent, model and seed, or the line.
        error: Why the row is not valid, or an empty string.
    """

    key: str
    label: str
    error: str


def validate(folder: str | Path, quiet: bool = False) -> Iterator[Replay]:
    """Replay each row of a folder's results, or of a file's; see ``check_rows``.

    Rows are replayed in this process, which opens the files that they name: check rows that you
    trust. A damaged line is not valid, and neither is a second row of one run. Rows of a page's
    own benchmark have no problem that could be made again, and nothing is yielded for them.

    Args:
        folder: Where the results are.
        quiet: Show no progress.

    Raises:
        UserError: There are no results of a study.
    """
    path = Path(folder)
    if is_file(path) and not any(row.keys() >= OF_STUDIES for row in read_columns(path)):
        return
    rows, damaged = read_runs(path)
    if not rows and not damaged:
        raise UserError(f"{folder} has no {ROWS} with rows of a study: run a study first")
    for line in damaged:
        name, _, error = line.partition(": ")
        yield Replay("", name, error)
    first = {row["key"]: place for place, row in reversed([*enumerate(rows)])}
    for row in (row for place, row in enumerate(rows) if first[row["key"]] != place):
        yield Replay(row["key"], name_run(row), "its run appears twice")
    once = [rows[place] for place in first.values()]
    for place, error in check_rows(once, quiet):
        yield Replay(once[place]["key"], name_run(once[place]), error)


def check_rows(rows: Sequence[Json], quiet: bool = False) -> Iterator[tuple[int, str]]:
    """Replay rows, and say of each why it does not hold.

    The environment of its problem is made again and its placement evaluated: what follows from
    that must be what the row states. Simulated numbers must be the same; a measured speed-up over
    the best single device must agree within twice the noise of both measurements, and the outputs
    with those of the reference device. Evaluations must not exceed the budget, or one episode if
    that is longer.

    Args:
        rows: As ``load_runs`` reads them.
        quiet: Show no progress.

    Yields:
        The place of a row in ``rows``, and an empty string if it holds; those of one problem
        follow each other.
    """
    places = sorted(range(len(rows)), key=lambda place: str(rows[place]["problem"]))
    with BenchEnvs() as envs, progress_bar(len(rows), "rows", quiet) as progress:
        for place in places:
            row = rows[place]
            progress.update(progress.task_ids[0], description=name_run(row))
            yield place, check_row(row, envs)
            progress.advance(progress.task_ids[0])


def name_run(row: Json) -> str:
    """Agent, model and seed of a row."""
    return f"{row['label']:.100}, {row['model']:.100}, seed {row['seed']}"
