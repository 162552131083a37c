"""Distance of each release's classic placers to the best known latencies.

python benchmarks/releases.py --run     # adds the rows of this version to those of the page
python benchmarks/releases.py           # writes the section "Releases" of floors.md from all rows
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Sequence
from functools import partial
from tempfile import TemporaryDirectory

import numpy as np
from common import (
    BY_RANK,
    PARTITIONING,
    RESULTS,
    SIMULATED,
    Row,
    best_known_ms,
    describe_kwargs,
    make_env,
    make_parser,
)
from summaries import Describe, first, make_table, only, tabulate

from placement_gym.bench.study import Study, read_columns, run_study
from placement_gym.bench.study.row_checks import COLUMNS
from placement_gym.version import VERSION

ROWS, PAGE = RESULTS / "releases.jsonl.xz", RESULTS / "floors" / "floors.md"
INPUTS = (
    "LayerGraphs/bert24_inference",
    "LayerGraphs/resnet50_inference",
    "LayerGraphs/inceptionv3_inference",
    "OperatorGraphs/bert_l-3_inference",
    "OperatorGraphs/bert_l-12_inference",
    "OperatorGraphs/resnet50_inference",
)
AGENTS = ("heft", "hill-climb", "annealing", "search")
DEVICES, SETTING = "1cpu+2acc@0.3", {"granularity": "op", "schedule": BY_RANK}
KEPT = (*COLUMNS, "latency_ms", "error")
"""Columns of rows, with the model."""
BEGIN, END = "<!-- releases -->", "<!-- end of releases -->"
"""The table stands between these lines of the page."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--run", action="store_true", help="run this version")
    if parser.parse_args().run:
        run_release()
    else:
        PAGE.write_text(write_page(PAGE.read_text(), [*read_columns(ROWS)]))


def run_release() -> None:
    """Run all agents, and add their rows, which name the model as the page does."""
    os.environ["DNN_PARTITIONING"] = str(PARTITIONING)
    models = {f"${{DNN_PARTITIONING}}/latency-inputs/{name}.json": name for name in INPUTS}
    study = Study(env=SIMULATED, env_kwargs=SETTING, models=[*models], devices=[DEVICES],
                  agents=AGENTS, seeds=10, budget=100)  # fmt: skip
    rows = [row for row in read_columns(ROWS) if row["version"] != VERSION]
    with TemporaryDirectory() as folder:
        for row in run_study(study, folder):
            env = describe_kwargs(row["env_kwargs"])
            kept = {column: row[column] for column in KEPT}
            rows.append({"model": models[env["env_kwargs"]["model"]]} | kept | env)
    ROWS.write_bytes(lzma.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def find_known_ms(name: str) -> float:
    """The lowest latency that is known of an input, ms."""
    path = PARTITIONING / "latency-inputs" / f"{name}.json"
    found = best_known_ms(make_env(path, devices=DEVICES, **SETTING))
    assert found is not None
    return found


def write_page(text: str, rows: Sequence[Row]) -> str:
    """The text of the page with its table: a line for each release and agent."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{write_table(rows)}\n{END}{rest.partition(END)[2]}"


def write_table(rows: Sequence[Row]) -> str:
    """For each release a line an agent, with the mean gap in % on every problem."""
    known = {name: find_known_ms(name) for name in INPUTS}
    versions = [*dict.fromkeys(row["version"] for row in rows)]
    gaps = [
        row | {"gap": 100.0 * ((row["latency_ms"] or np.nan) / known[row["model"]] - 1.0)}
        for row in rows
        if row["agent"] in AGENTS
    ]
    gaps.sort(key=lambda row: (versions.index(row["version"]), AGENTS.index(row["agent"])))

    def describe(failed: str, mine: list[Row]) -> str:
        gap = np.mean([row["gap"] for row in mine])
        return failed if np.isnan(gap) else f"{gap:.1f}"

    columns: dict[str, Describe] = {
        "release": lambda mine: f"{mine[0]['version']} ({mine[0]['commit'][:7]})",
        "agent": first("agent"),
        **{
            name.removesuffix("_inference"): only(partial(describe, "failed"), "model", name)
            for name in INPUTS
        },
        "mean": partial(describe, ""),
    }
    lines = [[*line.values()] for line in tabulate(gaps, ["version", "agent"], columns)]
    table = make_table(lines, *columns, numbers=len(columns) - 2)
    best = ", ".join(f"{name} {known[name]:.6g}" for name in INPUTS)
    return f"{table}\n\nBest known latencies, ms: {best}.\n"


if __name__ == "__main__":
    main()
