"""Distance of each release's classic placers to the best known latencies.

With a release on the path, ``python benchmarks/releases.py --run COMMIT`` adds its rows to those of
the page; without ``--run`` it writes the page from all rows.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "results"
ROWS, PAGE = FOLDER / "releases.jsonl.xz", FOLDER / "releases.md"
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
KEPT = ("processor", "agent", "kwargs", "env", "env_kwargs", "seed", "budget", "curve", "placement",
        "cpu_s", "latency_ms", "error")  # fmt: skip
"""Columns of rows beside version, commit and model."""
ABOUT = f"""# Releases

How far the placements of each release are above the best known latency, in percent: the mean of
{SEEDS} seeds with {BUDGET} evaluations each, on
[published workloads](https://github.com/msr-fiddle/dnn-partitioning) on one CPU core and two
accelerators that hold 30 % of the memory each, with units of one node and list schedules in order
of priority. Lower is better; 0.0 is the best known value of the package, and what is below it has
found a faster placement, which the package does not know yet. A cell is *failed* if one of its
runs found no placement that fits, and its row has no mean. Learned agents are not here, because
their runs take minutes; [published agents](published.md) has them.

`PYTHONPATH=CHECKOUT python benchmarks/releases.py --run COMMIT` adds a release, where CHECKOUT is
its source; without `--run` the command writes this page from all [rows](releases.jsonl.xz).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--run", metavar="COMMIT", help="run the release on the path, of this commit"
    )
    options = parser.parse_args()
    if options.run:
        run_release(options.run)
    else:
        PAGE.write_text(write_page(read_rows()))


def run_release(commit: str) -> None:
    """Run all agents that the release on the path has, and add their rows."""
    version = import_module("placement_gym").__version__
    names = [name for name in AGENTS if name in import_module("agents").AGENTS]
    os.environ["DNN_PARTITIONING"] = str(DATA)
    rows = [row for row in read_rows() if row["version"] != version]
    for model in INPUTS:
        said = {"version": version, "commit": commit, "model": model}
        study = describe_study(model, names, SEEDS)
        rows += [said | shorten(row, study["models"][0]) for row in run_study(study)]
    ROWS.write_bytes(lzma.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def run_study(study: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a study."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "releases.yaml"
        file.write_text(yaml.safe_dump(study))
        load_command()(["bench", "run", str(file), "--out", folder])
        return [json.loads(line) for line in (Path(folder) / "results.jsonl").open()]


def describe_study(model: str, agents: list[str], seeds: int) -> dict[str, Any]:
    """A study of one input, which every release can read."""
    return {
        "env": "DevicePlacementSim-v0",
        "env_kwargs": {"granularity": "op", "schedule": {"preset": "list", "order": "priority"}},
        "models": [f"${{DNN_PARTITIONING}}/latency-inputs/{model}.json"],
        "devices": ["1cpu+2acc@0.3"],
        "agents": agents,
        "seeds": seeds,
        "budget": BUDGET,
    }


def load_command() -> Any:
    """The function behind ``placement-gym``, wherever the release has it."""
    try:
        return import_module("placement_gym.cli.main").main
    except ModuleNotFoundError:  # 0.1.0
        return import_module("placement_gym.cli").main


def shorten(row: dict[str, Any], model: str) -> dict[str, Any]:
    """The columns that rows of every page share, as far as the release has them, and results.

    The model is named as the study names it, not by its path on this machine.
    """
    kept = {key: row[key] for key in KEPT if key in row}
    return kept | {"env_kwargs": row.get("env_kwargs", {}) | {"model": model}}


def read_rows() -> list[dict[str, Any]]:
    if not ROWS.exists():
        return []
    return [json.loads(line) for line in lzma.decompress(ROWS.read_bytes()).splitlines()]


def read_best_known() -> dict[str, float]:
    """Input -> the lowest latency that is known of its problem, ms."""
    import gymnasium as gym

    import placement_gym
    from placement_gym.bench.known.best_known import find_best_known  # 0.1.0 has none
    from placement_gym.bench.known.identity import identify

    values = {}
    for name in INPUTS:
        study = describe_study(name, [], SEEDS)
        model = str(DATA / "latency-inputs" / f"{name}.json")
        env = gym.make(study["env"], model=model, devices="1cpu+2acc@0.3", **study["env_kwargs"])
        found = find_best_known(identify(placement_gym.placement_env(env).backend))
        assert found is not None
        values[name] = found.latency_ms
    return values


def write_page(rows: list[dict[str, Any]]) -> str:
    """The page: for each release a line an agent, with the mean gap on every problem."""
    known = read_best_known()
    header = ["release", "agent", *(name.removesuffix("_inference") for name in INPUTS), "mean"]
    lines = [header, ["---", "---", *["---:"] * (len(INPUTS) + 1)]]
    for version in dict.fromkeys(row["version"] for row in rows):
        lines += list(write_release([row for row in rows if row["version"] == version], known))
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    best = ", ".join(f"{name} {known[name]:.6g}" for name in INPUTS)
    return f"{ABOUT}\n{table}\n\nBest known latencies, ms: {best}.\n"


def write_release(rows: list[dict[str, Any]], known: dict[str, float]) -> Iterator[list[str]]:
    for agent in AGENTS:
        gaps = [measure_gap(rows, agent, name, known[name]) for name in INPUTS]
        commit = next((row["commit"] for row in rows if row["agent"] == agent), None)
        if commit is not None:
            complete = [gap for gap in gaps if gap is not None]
            total = f"{mean(complete):.1f}" if len(complete) == len(gaps) else ""
            cells = ["failed" if gap is None else f"{gap:.1f}" for gap in gaps]
            yield [f"{rows[0]['version']} ({commit[:7]})", agent, *cells, total]


def measure_gap(
    rows: list[dict[str, Any]], agent: str, model: str, known_ms: float
) -> float | None:
    """Mean distance to the best known latency in percent, None if a run failed."""
    runs = [row for row in rows if row["agent"] == agent and row["model"] == model]
    if not runs or any(row["error"] or row["latency_ms"] is None for row in runs):
        return None
    return mean(100.0 * (row["latency_ms"] / known_ms - 1.0) for row in runs)


if __name__ == "__main__":
    main()
