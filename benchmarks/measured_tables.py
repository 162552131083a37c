"""Tables of the study ``measured``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import zip_longest

import numpy as np
from common import Row, load_rows
from scipy import stats
from summaries import Describe, Tables, first, group_by, number, only, tabulate

from placement_gym import Study
from placement_gym.backends.verdicts import WITHIN_NOISE
from placement_gym.bench.report.stats import Estimate, bootstrap, interquartile_mean
from placement_gym.bench.report.wording import is_misled

NAMES = {"resnet": "ResNet-50", "inception": "Inception-V3", "bert-8": "BERT-8", "gpt": "GPT"}
TWO, THREE = "cpu-testbed-limited", "cpu-testbed-limited-3"
SHORT = ("openvino-auto", "ppo", "placeto", "random-blocks", "hsdag", "rnn", "prefix", "greedy",
         "search")  # fmt: skip
"""Agents of the README's table."""
WITHOUT_PROFILE = {"single-device", "openvino-hetero", "openvino-auto", "window"}
"""Agents that neither read a profile nor have placements repaired by its times."""
PROFILES = "measured-profiles.jsonl"
BEDS = {TWO: 2, THREE: 3}
"""Test bed -> number of its devices, which identifies its rows."""


@cache
def list_labels() -> dict[str, str]:
    """Key of a run -> the study's label of its agent."""
    study = Study.load("measured")
    return {task.key: study.label(vars(task)) for task in study.tasks()}


def select(rows: Sequence[Row], bed: str, decided: bool = True) -> list[Row]:
    """The study's runs on a test bed, with the label of their agent as ``arm``."""
    return [
        row | {"arm": list_labels()[row["key"]]}
        for row in rows
        if row["key"] in list_labels()
        and len(row["devices"]) == BEDS[bed]
        and is_decided(row) is decided
    ]


def is_decided(row: Row) -> bool:
    """Return whether a row has a result, and the machine was not too busy for it."""
    undecided = row["warning"] and row["beats_best_single"] == WITHIN_NOISE
    return not (row["error"] or undecided or is_misled(row))


def score(mine: Sequence[Row]) -> Estimate:
    """The interquartile mean of speed-ups over the best single device, and its 95 % interval."""
    by_model = [
        [row["speedup_vs_best_single"] for row in runs] for runs in group_by(mine, "model").values()
    ]
    return bootstrap(interquartile_mean, np.array([*zip_longest(*by_model, fillvalue=np.nan)]))


def rank(rows: Sequence[Row], bed: str) -> list[Row]:
    """The runs on a test bed with their agent's score, those of the fastest agent first.

    Scores are over the models that all agents have run on, and the seeds of all these models.
    """
    runs = select(rows, bed)
    arms = group_by(runs, "arm")
    models_of_arms = ({row["model"] for row in mine} for mine in arms.values())
    everywhere = set(NAMES).intersection(*models_of_arms)
    if not everywhere:
        return []
    seeds_of_models = [
        {row["seed"] for row in runs if row["model"] == model} for model in everywhere
    ]
    seeds = set.intersection(*seeds_of_models)
    scores = {
        arm: score([row for row in mine if row["model"] in everywhere and row["seed"] in seeds])
        for (arm,), mine in arms.items()
    }
    ranked = [row | {"score": scores[row["arm"]]} for row in runs]
    return sorted(ranked, key=lambda row: -row["score"].value)


def list_agents(rows: Sequence[Row], bed: str) -> list[Row]:
    """Mean speed-ups of each agent on each model and over models, and the time of a run."""
    columns: dict[str, Describe] = {
        "agent": first("arm", "`{}`"),
        **{
            name: only(number("speedup_vs_best_single", ".2f", stats.gmean), "model", model)
            for model, name in NAMES.items()
        },
        "IQM": lambda mine: describe_estimate(mine[0]["score"]),
        "placements": number("evaluations", "d", max),
        "minutes": lambda mine: f"{np.median([*map(run_seconds, mine)]) / 60:.1f}",
    }
    return tabulate(rank(rows, bed), ["arm"], columns)


def run_seconds(row: Row) -> float:
    """Seconds of a run and of its agent's profile, if it uses one."""
    run_s: float = row["wall_s"]
    if row["arm"] in WITHOUT_PROFILE:
        return run_s
    profiles = [
        profile["wall_s"]
        for profile in load_rows(PROFILES)
        if profile["model"] == row["model"] and BEDS[profile["bed"]] == len(row["devices"])
    ]
    return run_s + float(np.median(profiles))


def describe_estimate(estimate: Estimate) -> str:
    """A mean, with its interval if it has any."""
    limits = f" ({estimate.low:.2f}, {estimate.high:.2f})"
    return f"{estimate.value:.2f}" + limits * (estimate.low < estimate.high)


def list_short(rows: Sequence[Row]) -> list[Row]:
    chosen = {f"`{arm}`" for arm in SHORT}
    lines = [line for line in list_agents(rows, TWO) if line["agent"] in chosen]
    return [{name: cell for name, cell in line.items() if name != "IQM"} for line in lines]


def list_undecided(rows: Sequence[Row]) -> list[Row]:
    return [
        {
            "agent": f"`{row['arm']}`",
            "model": NAMES[row["model"]],
            "devices": len(row["devices"]),
            "seed": row["seed"],
            "why": row["error"] or row["warning"] or "other programs disturbed the search",
        }
        for bed in BEDS
        for row in select(rows, bed, decided=False)
    ]


def list_plans(rows: Sequence[Row]) -> list[Row]:
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
    "two": partial(list_agents, bed=TWO),
    "three": partial(list_agents, bed=THREE),
    "short": list_short,
    "undecided": list_undecided,
}
