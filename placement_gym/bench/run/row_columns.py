"""The columns that rows of every page share, from which a run can be made again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from placement_gym.base import join_words
from placement_gym.bench.run.rows import Json, unpack

WHO = ("version", "commit", "processor")
WHAT = ("agent", "kwargs", "env", "env_kwargs", "seed", "budget")
FOUND = ("curve", "placement", "cpu_s")
COLUMNS = (*WHO, *WHAT, *FOUND)
"""See ``row_schema.Row``; rows of a page may have more."""
OF_STUDIES = {"score_on", "placement"}
"""Only rows of studies and comparisons of placements have both, and they can be replayed."""


def read_columns(path: Path) -> Iterator[Json]:
    """Read the rows of a file of any page.

    Lines that are no rows are left out: a replay names them.

    Raises:
        UserError: The file cannot be read.
    """
    for line in unpack(path).splitlines():
        with suppress(ValueError, RecursionError):
            values = json.loads(line)  # also infinite numbers, as in rows of 0.2.0
            if isinstance(values, dict):
                yield values


def find_missing(row: Json) -> tuple[str, ...]:
    """Find the columns that a row lacks; one without a result needs no placement."""
    needed = [name for name in COLUMNS if name != "placement" or not row.get("error")]
    return tuple(name for name in needed if row.get(name) is None)


def describe_older(path: Path) -> str:
    """Say which rows of a file are of an older schema, and what they lack; empty if none is."""
    rows = [*read_columns(path)]
    lacking = Counter(missing for row in rows if (missing := find_missing(row)))
    parts = [f"{count} have no {join_words(names, 'or')}" for names, count in lacking.items()]
    if not parts:
        return ""
    return f"{lacking.total()} of {len(rows)} rows are of an older schema: {'; '.join(parts)}"
