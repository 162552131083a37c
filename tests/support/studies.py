# White-box tests of bench.report
"""A small study, and its rows without what differs from run to run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from placement_gym.bench.report import document, problems
from placement_gym.bench.run import ROWS, Json
from placement_gym.bench.study import Study

VALUES: dict[str, Any] = {
    "env": "DevicePlacementSim-v0",
    "models": ["tiny", "resnet"],
    "devices": ["hsdag-paper"],
    "agents": ["random", {"name": "random-blocks"}, "single-device"],
    "seeds": 3,
    "budget": 12,
}
REPORTED = Study.from_dict(
    {
        "about": "Two <models> & some agents",
        "env": "DevicePlacementSim-v0",
        "models": ["tiny", "resnet"],
        "devices": ["hsdag-paper"],
        "agents": ["single-device", "random-blocks", "annealing", "min-cut", "failing_agent:make"],
        "seeds": 3,
        "budget": 30,
        "published": {"HSDAG": {"resnet": 7.66}},
    }
)
TIMES = ("wall_s", "cpu_s", "time", "curve")


def study(**changes: Any) -> Study:
    return Study.from_dict(VALUES | changes)


def timeless(rows: Iterable[Json]) -> list[Json]:
    """Rows without what differs from run to run, in the order of their keys."""
    kept = [{key: value for key, value in row.items() if key not in TIMES} for row in rows]
    return sorted(kept, key=lambda row: str(row["key"]))


def leave_out_pictures(patch: pytest.MonkeyPatch) -> None:
    """Name the pictures of reports instead of drawing them, and write no views."""
    patch.setattr(document, "save", lambda *_: None)
    patch.setattr(problems, "write_view", lambda *_: "a view")


def read_rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / ROWS).read_text().splitlines()]


def write_rows(folder: Path, rows: Iterable[Json]) -> Path:
    """Write the results of a folder, which is made if it is not there; returns it."""
    folder.mkdir(exist_ok=True)
    (folder / ROWS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
