"""Tables and the picture of the study ``measured``.

python benchmarks/measured_tables.py docs/results/measured-rows.jsonl docs/results/measured.png
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from common import Row, make_parser, read_rows
from summaries import Tables, describe_mean, group_by

from placement_gym import Study
from placement_gym.backends.verdicts import WITHIN_NOISE
from placement_gym.base.arrays import FloatArray
from placement_gym.bench.report.stats import Estimate, bootstrap, interquartile_mean

NAMES = {"resnet": "ResNet-50", "inception": "Inception-V3", "bert-8": "BERT-8", "gpt": "GPT"}
TWO, THREE = "cpu-testbed-limited", "cpu-testbed-limited-3"
SHORT = ("openvino-auto", "ppo", "placeto", "random-blocks", "hsdag", "rnn", "prefix", "greedy",
         "search")  # fmt: skip
"""Agents of the README's table."""
BEDS = {TWO: 2, THREE: 3}
"""Test bed -> how many devices it has, by which its rows are known."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    draw(read_rows(options.rows), options.picture)


@cache
def list_labels() -> dict[str, str]:
    """Key of a run -> what the study calls its agent."""
    study = Study.load("measured")
    labels = {(spec.name, str(spec.kwargs)): spec.label for spec in study.specs}
    return {task.key: labels[task.agent, str(task.kwargs)] for task in study.tasks()}


def select(rows: Sequence[Row], bed: str, decided: bool = True) -> list[Row]:
    """The study's runs on a test bed, with their agent as ``arm``."""
    return [
        row | {"arm": list_labels()[row["key"]]}
        for row in rows
        if row["key"] in list_labels()
        and len(row["devices"]) == BEDS[bed]
        and is_decided(row) is decided
    ]


def is_decided(row: Row) -> bool:
    """Return whether the measurement of a finalist says more than that the machine was busy."""
    return not (row["error"] or (row["warning"] and row["beats_best_single"] == WITHIN_NOISE))


def score(mine: Sequence[Row]) -> Estimate:
    """The interquartile mean of speed-ups over the best single device, and its 95 % interval."""
    by_model = [
        [row["speedup_vs_best_single"] for row in runs] for runs in group_by(mine, "model").values()
    ]
    speedups: FloatArray = np.full((max(map(len, by_model)), len(by_model)), np.nan)
    for column, values in enumerate(by_model):
        speedups[: len(values), column] = values
    return bootstrap(interquartile_mean, speedups)


def rank(rows: Sequence[Row], bed: str) -> dict[str, tuple[Estimate, list[Row]]]:
    """Agent -> its score and runs on a test bed, the fastest first.

    Scores are over the models that every agent has run on.
    """
    arms = {arm: mine for (arm,), mine in group_by(select(rows, bed), "arm").items()}
    everywhere = set(NAMES).intersection(
        *({row["model"] for row in mine} for mine in arms.values())
    )
    scored = {
        arm: (score([row for row in mine if row["model"] in everywhere]), mine)
        for arm, mine in arms.items()
        if everywhere
    }
    return dict(sorted(scored.items(), key=lambda item: -item[1][0].value))


def list_agents(rows: Sequence[Row], bed: str) -> list[Row]:
    """What each agent found on each model, the mean over models, and how long a run took."""
    lines = []
    for arm, (estimate, mine) in rank(rows, bed).items():
        line: Row = {"agent": f"`{arm}`"}
        for model, name in NAMES.items():
            values = [row["speedup_vs_best_single"] for row in mine if row["model"] == model]
            line[name] = describe_mean(values, digits=2)
        line["IQM"] = f"{estimate.value:.2f}"
        if estimate.low < estimate.high:  # not where each run is alone
            line["IQM"] += f" ({estimate.low:.2f}, {estimate.high:.2f})"
        line["placements"] = max(row["evaluations"] for row in mine)
        line["minutes"] = f"{np.median([row['wall_s'] for row in mine]) / 60:.1f}"
        lines.append(line)
    return lines


def list_short(rows: Sequence[Row]) -> list[Row]:
    """The table of the README."""
    chosen = {f"`{arm}`" for arm in SHORT}
    lines = [line for line in list_agents(rows, TWO) if line["agent"] in chosen]
    return [{name: cell for name, cell in line.items() if name != "IQM"} for line in lines]


def list_undecided(rows: Sequence[Row]) -> list[Row]:
    """Runs whose finalist could not be judged."""
    return [
        {
            "agent": f"`{row['arm']}`",
            "model": NAMES[row["model"]],
            "devices": len(row["devices"]),
            "seed": row["seed"],
            "why": row["error"] or row["warning"],
        }
        for bed in BEDS
        for row in select(rows, bed, decided=False)
    ]


def list_plans(rows: Sequence[Row]) -> list[Row]:
    """What the command ``plan`` answers, and in how many seconds."""
    return [
        {
            "model": NAMES[row["model"]],
            "plan": f"`{row['plan']}`",
            "x best single device": f"{row['speedup']:.2f} ± {row['speedup'] * row['noise']:.2f}",
            "seconds": f"{row['wall_s']:.0f}",
        }
        for row in rows
    ]


TABLES: Tables = {
    "plans": list_plans,
    "two": lambda rows: list_agents(rows, TWO),
    "three": lambda rows: list_agents(rows, THREE),
    "short": list_short,
    "undecided": list_undecided,
}
"""Name -> what makes the table of rows."""


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the speed-ups of all agents on both test beds, a mark for each model."""
    ranks = {bed: arms for bed in BEDS if (arms := rank(rows, bed))}
    size = (5.0 * len(ranks), 5.2)
    figure, panels = plt.subplots(
        1, len(ranks), figsize=size, layout="constrained", sharex=True, squeeze=False
    )
    for panel, (bed, arms) in zip(panels[0], ranks.items(), strict=True):
        for place, (estimate, mine) in enumerate(arms.values()):
            panel.plot([estimate.low, estimate.high], [place, place], color="black", lw=1.5)
            panel.plot(estimate.value, place, "o", color="black", ms=5)
            for number, model in enumerate(NAMES):
                values = [row["speedup_vs_best_single"] for row in mine if row["model"] == model]
                panel.plot(values, [place] * len(values), "|", color=f"C{number}", ms=9)
        panel.axvline(1.0, color="grey", lw=1, ls="--")
        panel.set_yticks(range(len(arms)), list(arms))
        panel.invert_yaxis()
        panel.set(title=f"{BEDS[bed]} devices", xlabel="x the best single device, measured")
        panel.spines[["top", "right"]].set_visible(False)
    for number, model in enumerate(NAMES):
        panels[0, 0].plot([], [], "|", color=f"C{number}", ms=9, label=NAMES[model])
    panels[0, 0].plot([], [], "-o", color="black", ms=5, label="interquartile mean, 95 %")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
