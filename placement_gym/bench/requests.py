"""Compare policies under load: rules and trained ones on the same traces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from scipy import stats

from placement_gym.base.errors import UserError, unknown_name
from placement_gym.base.files import make_output_folder
from placement_gym.base.fitted_table import Column, FittedTable
from placement_gym.base.plain import to_plain
from placement_gym.base.progress import progress_bar, show_step
from placement_gym.bench.run.agents import load_bundled
from placement_gym.bench.run.provenance import host, origin, versions
from placement_gym.bench.run.rows import append_line, cut_torn_line, group_by, lock_folder
from placement_gym.bench.study.spec import Study
from placement_gym.bench.study.task import Task
from placement_gym.envs.online.choosers import make_chooser
from placement_gym.envs.online.env import OnlineEnv
from placement_gym.envs.online.plans import PlanTable
from placement_gym.envs.online.rules import RULES, make_rule

ROWS = "requests.jsonl"
N_TRACES, N_MEASURED = 50, 3
"""Traces that every policy plays, simulated and in real time: ours."""
FLOOR = "shortest-completion"
"""The rule that others are compared with."""
MEANS = ("log_slowdown", "slowdown", "late", "failed", "loaded_mb", "other", "spared")
"""Means over the requests of a trace. ``other``: not the plan of ``FLOOR``; ``spared``: such a one
that loads less."""
COLUMNS = (
    Column("policy", text=True),
    Column("runs", spare=3),
    Column("log slow-down"),
    Column("gain (95 %)", meaning=f"how much less than {FLOOR}; the interval is over traces"),
    Column("each run", spare=7, meaning="its gain"),
    Column("slow-down"),
    Column("late", spare=2, meaning="share beyond the deadline"),
    Column("failed", spare=1, meaning="share that a device failed on"),
    Column("MB loaded", spare=4, meaning="weights, for a request"),
    Column("other", spare=6, meaning=f"share with another plan than that of {FLOOR}"),
    Column("spared", spare=8, meaning="share of such a plan that loads less"),
    Column("decision, ms", spare=5, meaning="processor time"),
    Column("training, s", spare=5, meaning="processor time"),
)
CELLS = {
    "log_slowdown": ("log slow-down", 3),
    "slowdown": ("slow-down", 2),
    "late": ("late", 3),
    "failed": ("failed", 3),
    "loaded_mb": ("MB loaded", 2),
    "other": ("other", 3),
    "spared": ("spared", 3),
    "decision_ms": ("decision, ms", 3),
    "train_s": ("training, s", 0),
}
"""Field of a row -> column of its mean, and digits."""
Row = dict[str, Any]


def compare_policies(study: Study, out: str | Path, quiet: bool = False) -> list[Row]:
    """Run what a folder lacks of a comparison, one run after another; returns all its rows.

    Each run adds a line to ``requests.jsonl`` as it ends. The folder also keeps the plans and what
    was trained, for ``serve_plans``.

    Args:
        study: ``models`` are served together, on each of its ``devices``. ``agents`` are names of
            rules, which do not learn, and of ``agents.requests.LEARNERS``; ``budget`` is the
            requests of a training. ``env_kwargs`` are those of ``OnlineEnv``.
        out: The folder.
        quiet: Show no progress.

    Raises:
        UserError: An argument is wrong; nothing has run then.
    """
    tasks, folder = list_tasks(study), make_output_folder(out)
    with lock_folder(folder), progress_bar(len(tasks), "runs", quiet) as progress:
        rows = read_rows(folder / ROWS)
        progress.advance(progress.task_ids[0], sum(task.key in rows for task in tasks))
        # The tasks of the same devices share an environment, whose plans may be measured.
        missing = [task for task in tasks if task.key not in rows]
        for problem, own in groupby(missing, attrgetter("problem")):
            _, env_kwargs, models, devices = json.loads(problem)
            with closing(OnlineEnv(models.split(","), devices, **env_kwargs)) as env:
                for task in own:
                    show_step(f"{task.agent} with seed {task.seed}")
                    rows[task.key] = run(task, env, folder)
                    append_line(folder / ROWS, json.dumps(rows[task.key]).encode())
                    progress.advance(progress.task_ids[0])
    return [rows[task.key] for task in tasks]


def list_tasks(study: Study) -> list[Task]:
    """Every run once; rules run with one seed, and without a budget that could matter."""
    learners = load_bundled("agents.requests:LEARNERS")
    if study.score_on or study.roles or study.published:
        raise UserError(f"a study of {study.env} has no score_on, roles or published")
    for spec in study.specs:
        if spec.name not in {**RULES, **learners}:
            raise unknown_name("a policy", spec.name, [*RULES, *learners])
        if spec.kwargs:
            raise UserError(f"policy {spec.name!r} has no options")
        if spec.name in learners:
            load_bundled("agents.requests:check_budget")(study.budget)
    common: dict[str, Any] = {
        "env": study.env,
        "kwargs": {},
        "env_kwargs": {"trace": "test", **study.env_kwargs},
        "model": ",".join(map(str, study.models)),
    }
    return [
        Task(agent=name, devices=devices, seed=seed, budget=budget, **common)
        for devices in study.devices
        for name in dict.fromkeys(spec.name for spec in study.specs)
        for seed, budget in (
            [(0, 1)] if name in RULES else [(seed, study.budget) for seed in study.all_seeds]
        )
    ]


def read_rows(path: Path) -> dict[str, Row]:
    """The rows of a folder by their keys."""
    cut_torn_line(path)
    return {row["key"]: row for row in map(json.loads, path.read_text().splitlines())}


def run(task: Task, env: OnlineEnv, folder: Path) -> Row:
    """Make or train a policy, and play the traces."""
    simulated = {**task.env_kwargs, "plans": env.plans, "measured": False}
    began_s = process_time()
    if task.agent in RULES:
        # Rollouts read the environment that they play; static rules are chosen on other traces.
        own = task.agent == "rollouts"
        policy = make_rule(
            task.agent, env if own else OnlineEnv(**simulated | {"trace": "validation"})
        )
    else:
        of_training = {key: simulated[key] for key in simulated if key not in ("rate", "trace")}
        train = load_bundled("agents.requests:train")
        policy = train(task.agent, task.seed, task.budget, **of_training)
        policy.save(folder / f"{task.agent}-{task.key}.zip")
    row = {"train_s": round(process_time() - began_s, 1), "plans": save_plans(env.plans, folder)}
    return describe(task) | row | play(env, policy)


def save_plans(plans: PlanTable, folder: Path) -> str:
    """Write plans to a file that is named by them; returns its name."""
    text = json.dumps(plans.to_json(), sort_keys=True)
    name = f"plans-{sha256(text.encode()).hexdigest()[:8]}.json"
    plans.save(folder / name)
    return name


def describe(task: Task) -> Row:
    """What was run, where and when."""
    time = datetime.now(UTC).isoformat("T", "seconds")
    made = {**origin(), "versions": versions(), "host": host(), "time": time}
    values: Row = to_plain({"key": task.key, **vars(task), **made})
    return values


def play(env: OnlineEnv, policy: Any) -> Row:
    """(n_traces,) means over the requests of each trace; and the time that a decision takes."""
    traces, decisions_s, n = [], 0.0, 0
    for number in range(N_TRACES if env.machine is None else N_MEASURED):
        (seen, _), over, steps = env.reset(options={"trace": number}), False, []
        choose = make_chooser(policy)  # without a state of the trace before
        while not over:
            began_s = process_time()
            plan = int(choose(seen))
            decisions_s, n, before = decisions_s + process_time() - began_s, n + 1, seen
            seen, reward, _, over, info = env.step(plan)
            steps.append(list_values(env, before, plan, reward, info))
        traces.append(np.sum(steps, axis=0) / len(steps))
    means = np.round(np.transpose(traces), 5).tolist()
    return dict(zip(MEANS, means, strict=True)) | {"decision_ms": round(1e3 * decisions_s / n, 4)}


def list_values(env: OnlineEnv, seen: Any, plan: int, reward: float, info: Row) -> list[float]:
    """What ``MEANS`` are of, for a step; in real time of all requests that were answered in it."""
    shortest, loading = seen[env.parts["latency"]].argmin(), seen[env.parts["loading"]]
    other = plan != shortest
    spared = other and loading[plan] < loading[shortest]
    slowdowns, loaded_mb = info["slowdown"] * info["finished"], info["loaded_bytes"] / 1e6
    return [-reward, slowdowns, info["late"], info["failed"], loaded_mb, other, spared]


def policy_table(rows: list[Row], title: str) -> FittedTable:
    """A line for each policy; its runs differ by their seeds."""
    table, by_policy = FittedTable(COLUMNS, title), group_by("agent", rows)
    (floor,) = by_policy.get(FLOOR, [None])
    for policy, own in by_policy.items():
        cells = {"policy": policy, "runs": str(len(own)), **describe_gain(floor, own)}
        for field, (name, digits) in CELLS.items():
            values = [row[field] for row in own if row.get(field) is not None]
            cells[name] = f"{np.mean(values):.{digits}f}" if values else "-"
        table.add_cells(cells)
    return table


def describe_gain(floor: Mapping[str, Any] | None, own: list[Row]) -> dict[str, str]:
    """Cells of how much less the log slow-down is than that of a row, on the same traces."""
    if floor is None or own[0]["key"] == floor["key"]:
        return {}
    gains = np.array(floor["log_slowdown"]) - [row["log_slowdown"] for row in own]
    each = gains.mean(axis=0)
    drawn = stats.bootstrap((each,), np.mean, method="percentile", n_resamples=2000, rng=0)
    low, high = drawn.confidence_interval
    return {
        "gain (95 %)": f"{each.mean():+.3f} ({low:+.3f}, {high:+.3f})",
        "each run": ", ".join(f"{gain:+.3f}" for gain in gains.mean(axis=1)),
    }
