"""Distance of each release's classic placers to the best known latencies.

python benchmarks/releases.py     # adds the rows of this version
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
    describe_kwargs,
    load_rows,
    make_parser,
)
from floors import find_best_known
from summaries import Describe, first, make_table, only, tabulate

from placement_gym.bench.study import Study, read_columns, run_study
from placement_gym.bench.study.row_checks import COLUMNS
from placement_gym.version import VERSION

ROWS = RESULTS / "releases.jsonl.xz"
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
MODELS = {f"${{DNN_PARTITIONING}}/latency-inputs/{name}.json": name for name in INPUTS}


def main() -> None:
    make_parser(__doc__).parse_args()
    os.environ["DNN_PARTITIONING"] = str(PARTITIONING)
    study = Study(env=SIMULATED, env_kwargs=SETTING, models=[*MODELS], devices=[DEVICES],
                  agents=AGENTS, seeds=10, budget=100)  # fmt: skip
    rows = [row for row in read_columns(ROWS) if row["version"] != VERSION]
    with TemporaryDirectory() as folder:
        for row in run_study(study, folder):
            env = describe_kwargs(row["env_kwargs"])
            kept = {column: row[column] for column in KEPT}
            rows.append({"model": MODELS[env["env_kwargs"]["model"]]} | kept | env)
    ROWS.write_bytes(lzma.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def write_table(rows: Sequence[Row]) -> str:
    """The mean gap in % on every problem, a line for each release and agent."""
    best = find_best_known(load_rows("floors/floors.jsonl.xz"))
    known = {name: best[name, DEVICES] for name in INPUTS}
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
    return make_table(lines, *columns, numbers=len(columns) - 2)


if __name__ == "__main__":
    main()
