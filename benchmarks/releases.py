"""Distance of each release's classic placers to the best known latencies.

python benchmarks/releases.py --run     # adds the rows of this version to those of the page
python benchmarks/releases.py           # writes the section "Releases" of floors.md from all rows
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from common import BY_RANK, SIMULATED, Row, best_known_ms, describe_kwargs, make_env, make_parser

from placement_gym.bench.study import Study, read_columns, run_study
from placement_gym.bench.study.row_checks import COLUMNS
from placement_gym.version import VERSION

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "results"
ROWS, PAGE = FOLDER / "releases.jsonl.xz", FOLDER / "floors" / "floors.md"
DATA = ROOT / "tests" / "data" / "dnn-partitioning"
INPUTS = (
    "LayerGraphs/bert24_inference",
    "LayerGraphs/resnet50_inference",
    "LayerGraphs/inceptionv3_inference",
    "OperatorGraphs/bert_l-3_inference",
    "OperatorGraphs/bert_l-12_inference",
    "OperatorGraphs/resnet50_inference",
)
AGENTS = ("heft", "hill-climb", "annealing", "search")
SEEDS, BUDGET = 10, 100
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
    os.environ["DNN_PARTITIONING"] = str(DATA)
    rows = [row for row in read_columns(ROWS) if row["version"] != VERSION]
    for name in INPUTS:
        study = Study.of(
            {
                "env": SIMULATED,
                "env_kwargs": SETTING,
                "models": [f"${{DNN_PARTITIONING}}/latency-inputs/{name}.json"],
                "devices": [DEVICES],
                "agents": AGENTS,
                "seeds": SEEDS,
                "budget": BUDGET,
            }
        )
        with TemporaryDirectory() as folder:
            for row in run_study(study, folder):
                kept = {column: row[column] for column in KEPT}
                rows.append({"model": name} | kept | describe_kwargs(row["env_kwargs"]))
    ROWS.write_bytes(lzma.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def find_known_ms(name: str) -> float:
    """The lowest latency that is known of an input, ms."""
    path = DATA / "latency-inputs" / f"{name}.json"
    found = best_known_ms(make_env(path, devices=DEVICES, **SETTING))
    assert found is not None
    return found


def write_page(text: str, rows: Sequence[Row]) -> str:
    """The text of the page with its table: a line for each release and agent."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{write_table(rows)}\n{END}{rest.partition(END)[2]}"


def write_table(rows: Sequence[Row]) -> str:
    """For each release a line an agent, with the mean gap on every problem."""
    known = {name: find_known_ms(name) for name in INPUTS}
    header = ["release", "agent", *(name.removesuffix("_inference") for name in INPUTS), "mean"]
    lines = [header, ["---", "---", *["---:"] * (len(INPUTS) + 1)]]
    for version in dict.fromkeys(row["version"] for row in rows):
        lines += list(write_release([row for row in rows if row["version"] == version], known))
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    best = ", ".join(f"{name} {known[name]:.6g}" for name in INPUTS)
    return f"{table}\n\nBest known latencies, ms: {best}.\n"


def write_release(rows: Sequence[Row], known: dict[str, float]) -> Iterator[list[str]]:
    for agent in AGENTS:
        gaps = [measure_gap(rows, agent, name, known[name]) for name in INPUTS]
        commit = next((row["commit"] for row in rows if row["agent"] == agent), None)
        if commit is not None:
            complete = [gap for gap in gaps if gap is not None]
            total = f"{mean(complete):.1f}" if len(complete) == len(gaps) else ""
            cells = ["failed" if gap is None else f"{gap:.1f}" for gap in gaps]
            yield [f"{rows[0]['version']} ({commit[:7]})", agent, *cells, total]


def measure_gap(rows: Sequence[Row], agent: str, model: str, known_ms: float) -> float | None:
    """Mean distance to the best known latency in percent, None if a run failed."""
    runs = [row for row in rows if row["agent"] == agent and row["model"] == model]
    if not runs or any(row["error"] or row["latency_ms"] is None for row in runs):
        return None
    return mean(100.0 * (row["latency_ms"] / known_ms - 1.0) for row in runs)


if __name__ == "__main__":
    main()
