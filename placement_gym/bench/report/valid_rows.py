"""Rows that a report can use; a file may hold others, with values that no schema excludes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from placement_gym.base.errors import warn_user
from placement_gym.bench.known.identity import identify_row
from placement_gym.bench.run.rows import Json
from placement_gym.bench.study.task import describe_devices
from placement_gym.hardware.devices import DeviceSpec

SHOWN = 3
"""Rows that the warning names."""


def keep_valid_rows(rows: Sequence[Json], problems: Mapping[str, str] | None = None) -> list[Json]:
    """The valid rows; a warning names the others.

    Args:
        rows: As ``load_runs`` returns them.
        problems: Key -> problem, as the study states it; None where there is no study.
    """
    faults = [find_fault(row, (problems or {}).get(row["key"])) for row in rows]
    bad = [(row, fault) for row, fault in zip(rows, faults, strict=True) if fault]
    if bad:
        named = "; ".join(
            f"{row['label']:.80}, {row['model']:.80}, seed {row['seed']}: {fault:.200}"
            for row, fault in bad[:SHOWN]
        )
        warn_user(f"{len(bad)} of {len(rows)} rows are invalid and left out ({named})")
    return [row for row, fault in zip(rows, faults, strict=True) if not fault]


def find_fault(row: Json, problem: str | None) -> str:
    """Why a row cannot be used, or an empty string."""
    if problem not in (None, row["problem"]):
        return "its key is that of another problem"
    try:
        for values in row["devices"]:
            DeviceSpec.from_json(values)
        describe_devices(json.loads(row["problem"])[3])
        identify_row(row)
        identify_row(row, row["score_on"])
    except Exception as error:  # whatever a stranger's values lead to
        return f"{type(error).__name__}: {error}"
    return ""
