"""Compare policies under load: rules and trained ones on the same traces.

Functions that ``by_environment`` finds have the parameters of those of placements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from inspect import signature
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Group
from scipy import stats

from placement_gym.base.arguments import flat_keywords
from placement_gym.base.errors import UserError, unknown_name
from placement_gym.base.files import make_output_folder
from placement_gym.base.fitted_table import Column, FittedTable, FittedText
from placement_gym.base.plain import to_plain
from placement_gym.base.progress import begin, progress_bar
from placement_gym.base.shown_task import show_step
from placement_gym.bench.compare import DEFAULT_ENV, Effort
from placement_gym.bench.run.agents import load_bundled
from placement_gym.bench.run.provenance import host, origin, versions
from placement_gym.bench.run.rows import append_line, cut_torn_line, group_by, lock_folder
from placement_gym.bench.run.run_key import describe_problem
from placement_gym.bench.study.spec import Study
from placement_gym.bench.study.task import Task, describe_devices
from placement_gym.envs.online.choosers import make_chooser
from placement_gym.envs.online.env import OnlineEnv
from placement_gym.envs.online.rules import BY_STATE, RULES, make_rule

ROWS = "requests.jsonl"
N_TRACES, N_MEASURED = 50, 10
"""Traces that every policy plays, simulated and in real time: ours."""
FLOOR = "shortest-completion"
"""The rule that others are compared with."""
MEANS = ("log_slowdown", "slowdown", "late", "failed", "loaded_mb", "other", "spared")
"""Means over the requests of a trace. ``other``: not the plan of ``FLOOR``; ``spared``: such a one
that loads less."""
CELLS = {
    "log_slowdown": (Column("log slow-down"), 3),
    "slowdown": (Column("slow-down"), 2),
    "late": (Column("late", spare=2, meaning="share beyond the deadline"), 3),
    "failed": (Column("failed", spare=1, meaning="share that a device failed on"), 3),
    "loaded_mb": (Column("MB loaded", spare=4, meaning="weights, for a request"), 2),
    "other": (Column("other", spare=6, meaning=f"share with another plan than {FLOOR}"), 3),
    "spared": (Column("spared", spare=8, meaning="share of such a plan that loads less"), 3),
    "decision_ms": (Column("decision, ms", spare=5, meaning="processor time"), 3),
    "train_s": (Column("training, s", spare=5, meaning="processor time"), 0),
}
"""Field of a row -> column of its mean, and digits."""
COLUMNS = (
    Column("policy", text=True),
    Column("runs", spare=3),
    Column("gain (95 %)", meaning=f"log slow-down less than {FLOOR}'s; interval over traces"),
    Column("each run", spare=7, meaning="its gain"),
    *(column for column, _ in CELLS.values()),
)
Row = dict[str, Any]


@flat_keywords(effort=Effort)
def compare(  # noqa: D417  see ``bench.compare``
    model: Any = "resnet",
    agents: Sequence[str] | None = None,
    env_id: str = DEFAULT_ENV,
    devices: Any = None,
    *,
    effort: Effort,
    out: str | Path = "results",
    env_kwargs: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> Row:
    """Compare policies on models that are served together.

    Args:
        model: A list of models, or their names separated by commas.
        agents: Rules, which are the default, and names of ``agents.requests.LEARNERS``.
        budget: Requests of a training.
    """
    study = Study(
        env=env_id,
        models=model.split(",") if isinstance(model, str) else model,
        agents=agents or [*RULES],
        budget=effort.budget,
        devices=[devices],
        seeds=effort.seeds,
        env_kwargs=dict(env_kwargs or {}),
    )
    rows = run_study(study, out, quiet=quiet)
    return {"env": env_id, "rows": rows, "kept": "Rows, plans and policies", "interrupted": ""}


def comparison_table(document: Row) -> Group:
    """A table for each entry of devices, with a line for each policy."""
    tables = []
    for rows in group_by("problem", document["rows"]).values():
        settings = rows[0]["env_kwargs"]
        devices = describe_devices(rows[0]["devices"])
        tables.append(policy_table(rows, f"{rows[0]['model']} on {devices}: {settings}"))
    return Group(*tables)


def summarize_study(study: Study, rows: list[Row], out: str | Path) -> tuple[Row, Group]:
    """The rows, and what is printed of them."""
    table = comparison_table({"rows": rows})
    return {"rows": rows}, Group(table, FittedText(f"{len(rows)} rows in {out}/{ROWS}"))


def check_names(study: Study) -> None:
    """Raise ``UserError`` if a study has what policies do not; see ``list_tasks``."""
    list_tasks(study)


def choose_executor(study: Study, name: str, *options: Any) -> tuple[str, None]:
    """Runs follow one another in this process; raise ``UserError`` if others are asked for."""
    if name not in ("auto", "serial") or any(option is not None for option in options):
        raise UserError(f"runs of {study.env} follow one another: leave out the executor's options")
    return "serial", None


def describe_study(study: Study, out: str | Path, retry_failed: bool = False) -> str:
    """Describe what running the study would do."""
    tasks, file = list_tasks(study), Path(out, ROWS)
    done = read_rows(file) if file.exists() else {}
    n_done = sum(task.key in done for task in tasks)
    policies = ", ".join(dict.fromkeys(task.agent for task in tasks))
    return (
        f"{len(tasks)} runs, {n_done} already done\npolicies: {policies}\n"
        f"models served together ({study.env}): {tasks[0].model}"
    )


def run_study(  # noqa: D417  the others are those of ``bench.study.runner``
    study: Study,
    out: str | Path,
    executor: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    retry_failed: bool = False,
    quiet: bool = False,
    timeout_s: float | None = None,
) -> list[Row]:
    """Run what a folder lacks of a study, one run after another; returns all its rows.

    Each run adds a line to ``requests.jsonl`` as it ends. The folder also keeps the plans and what
    was trained, for ``serve_plans``.

    Args:
        study: ``models`` are served together, on each of its ``devices``. ``agents`` are names of
            rules, which do not learn, and of ``agents.requests.LEARNERS``; ``budget`` is the
            requests of a training. ``env_kwargs`` are those of ``OnlineEnv``.

    Raises:
        UserError: An argument is wrong; nothing has run then.
    """
    choose_executor(study, executor, workers, address, timeout_s)
    tasks, folder = list_tasks(study), make_output_folder(out)
    with lock_folder(folder), progress_bar(len(tasks), "runs", quiet) as progress:
        cut_torn_line(folder / ROWS)
        rows = read_rows(folder / ROWS)
        begin(progress, sum(task.key in rows for task in tasks))
        # The tasks of the same devices share an environment, whose plans may be measured.
        missing = [task for task in tasks if task.key not in rows]
        for _, own in groupby(missing, attrgetter("problem")):
            first, *rest = own
            models = first.model.split(",")
            with closing(OnlineEnv(models, first.devices, **first.env_kwargs)) as env:
                for row in run([first, *rest], env, folder):
                    append_line(folder / ROWS, json.dumps(row).encode())
                    progress.advance(progress.task_ids[0])
        rows = read_rows(folder / ROWS)
    return [rows[task.key] for task in tasks]


def list_tasks(study: Study) -> list[Task]:
    """Every run once; rules run with one seed, and without a budget that could matter.

    Raises:
        UserError: A policy or an argument is unknown, or does not apply.
    """
    learners = load_bundled("agents.requests:LEARNERS")
    arguments = sorted(signature(OnlineEnv).parameters.keys() - {"models", "devices"})
    if study.score_on or study.roles or study.published:
        raise UserError(f"a study of {study.env} has no score_on, roles or published")
    for key in study.env_kwargs:
        if key not in arguments:
            raise unknown_name(f"an argument of {study.env}", key, arguments)
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
    """The rows of a folder by their keys, with their problems; none of them is of a failed run."""
    rows = map(json.loads, path.read_text().splitlines())
    return {row["key"]: row | {"error": "", "problem": describe_problem(row)} for row in rows}


def run(tasks: Sequence[Task], env: OnlineEnv, folder: Path) -> Iterator[Row]:
    """Make or train policies, and play the traces; yields rows as they are done.

    In real time policies take turns at each trace, as a machine's speed changes.
    """
    for batch in [tasks] if env.measured else [[task] for task in tasks]:
        policies, rows = zip(*[make_policy(task, env, folder) for task in batch], strict=True)
        played = []
        for number in range(N_MEASURED if env.measured else N_TRACES):
            for task, policy in zip(batch, policies, strict=True):
                show_step(f"{task.agent} with seed {task.seed}, trace {number}")
                played.append(play_trace(env, policy, number))
        for place, row in enumerate(rows):
            *traces, decision_ms = np.transpose(played[place :: len(rows)])
            means = np.round(traces, 5).tolist()
            values = dict(zip(MEANS, means, strict=True))
            yield to_plain(row | values | {"decision_ms": round(float(decision_ms.mean()), 4)})


def make_policy(task: Task, env: OnlineEnv, folder: Path) -> tuple[Any, Row]:
    """The policy of a task, and its row without what it plays."""
    show_step(f"{task.agent} with seed {task.seed}")
    simulated = {**task.env_kwargs, "plans": env.plans, "measured": False}
    began_s = process_time()
    if task.agent in RULES:
        # Static rules are chosen on other traces.
        other = OnlineEnv(**simulated | {"trace": "validation"})
        policy: Any = make_rule(task.agent, env if task.agent in BY_STATE else other)
    else:
        of_training = {key: simulated[key] for key in simulated if key not in ("rate", "trace")}
        train = load_bundled("agents.requests:train")
        policy = train(task.agent, task.seed, task.budget, **of_training)
        policy.save(folder / f"{task.agent}-{task.key}.zip")
    train_s, time = round(process_time() - began_s, 1), datetime.now(UTC)
    plans = json.dumps(env.plans.to_json(), sort_keys=True)
    name = f"plans-{sha256(plans.encode()).hexdigest()[:8]}.json"
    env.plans.save(folder / name)
    about = {"versions": versions(), "host": host(), "time": time.isoformat("T", "seconds")}
    return policy, {
        "key": task.key,
        **vars(task),
        **origin(),
        **about,
        "train_s": train_s,
        "plans": name,
    }


def play_trace(env: OnlineEnv, policy: Any, number: int) -> list[float]:
    """``MEANS`` over the requests of a trace, and the processor time of a decision in ms."""
    (seen, _), over, steps = env.reset(options={"trace": number}), False, []
    choose, decisions_s = make_chooser(policy), 0.0  # without a state of the trace before
    while not over:
        began_s = process_time()
        plan = int(choose(seen))
        decisions_s, before = decisions_s + process_time() - began_s, seen
        seen, reward, _, over, info = env.step(plan)
        steps.append(list_values(env, before, plan, reward, info))
    means = np.sum(steps, axis=0) / len(steps)
    return [*means, 1e3 * decisions_s / len(steps)]


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
        for field, (column, digits) in CELLS.items():
            values = [row[field] for row in own if row.get(field) is not None]
            cells[column.name] = f"{np.mean(values):.{digits}f}" if values else "-"
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
