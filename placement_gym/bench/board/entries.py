"""The entries of a leader board: rows whose placements a replay confirms."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from placement_gym.base.errors import UserError
from placement_gym.base.progress import progress_bar
from placement_gym.bench.known.identity import ProblemIdentity, digest, identify, identify_row
from placement_gym.bench.report.known_latencies import find_recorded
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.environment import BenchEnvs
from placement_gym.bench.run.rows import Json, group_by, load_runs
from placement_gym.bench.study.replay import check_row
from placement_gym.bench.study.spec import Study
from placement_gym.bench.study.task import Task

SET = "placement-bench-1"
"""The set of the package, which never changes; another one gets the next number."""


@dataclass(frozen=True)
class Entries:
    """What a board shows.

    Attributes:
        study: Its problems, seeds and budget are the set.
        identity: Sixteen hex digits of them: of models, costs, devices and schedules, not of names.
        results: All rows that count.
        left_out: A sentence for each row and agent that does not count.
    """

    study: Study
    identity: str
    results: StudyResults
    left_out: Sequence[str]


def collect_entries(study: Study, folders: Sequence[Path], quiet: bool = False) -> Entries:
    """Replay the rows of a set of problems, and keep the agents that have a valid row of each run.

    Environments are made from the set, not from the rows, so that a row cannot bring its own.

    Args:
        study: The set; its agents do not matter.
        folders: Of result rows; of two rows of one run the first counts.
        quiet: Show no progress.

    Raises:
        UserError: The folders have no row of the set.
    """
    tasks = {task.problem: task for task in study.tasks()}
    rows = select_rows(study, folders)
    if not rows:
        raise UserError(
            "these folders have no rows with the set's problems, seeds and budget: run "
            f"`placement-gym bench run {SET} --agents AGENT --out FOLDER` first"
        )
    identities, errors = replay_rows(tasks, rows, quiet)
    valid = [row for row in rows if not errors[row["key"]]]
    left_out = [f"{name_run(row)}: {errors[row['key']]}" for row in rows if errors[row["key"]]]
    n_runs = len(tasks) * len(study.all_seeds)
    runs = Counter(row["label"] for row in valid)
    left_out += [
        f"{name} has {runs[name]} of {n_runs} runs"
        for name in group_by("label", rows)
        if runs[name] < n_runs
    ]
    shown = [row for row in valid if runs[row["label"]] == n_runs]
    results = StudyResults(shown, find_recorded(shown))
    return Entries(study, digest_set(study, identities), results, left_out)


def replay_rows(
    tasks: Mapping[str, Task], rows: Sequence[Json], quiet: bool
) -> tuple[list[ProblemIdentity | None], dict[str, str]]:
    """The identity of each problem, and by the key of each row why it does not count."""
    identities: list[ProblemIdentity | None] = []
    errors: dict[str, str] = {}
    with BenchEnvs() as envs, progress_bar(len(tasks), "problems", quiet) as progress:
        for problem, task in tasks.items():
            progress.update(progress.task_ids[0], description=f"replaying {Path(task.model).stem}")
            identities.append(identify(envs.get(task.env, task.make_kwargs).base.backend))
            for row in rows:
                if row["problem"] == problem:
                    errors[row["key"]] = check_entry(row, task, identities[-1], envs)
            progress.advance(progress.task_ids[0])
    return identities, errors


def digest_set(study: Study, identities: Sequence[ProblemIdentity | None]) -> str:
    """Sixteen hex digits of a set: its problems, None where measured, its seeds and budget."""
    keys = [identity and identity.key for identity in identities]
    return digest(json.dumps([keys, study.all_seeds, study.budget]))


def select_rows(study: Study, folders: Sequence[Path]) -> list[Json]:
    """The rows of a set, one for each run; labels say agent and options, whatever rows say."""
    problems = {task.problem for task in study.tasks()}
    found: dict[str, Json] = {}
    for row in (row for folder in folders for row in load_runs(folder)):
        fits = row["seed"] in study.all_seeds and row["budget"] == study.budget
        if fits and row["problem"] in problems and not row["score_on"]:
            label = AgentSpec(row["agent"], row["kwargs"]).label
            found.setdefault(row["key"], row | {"label": label})
    return list(found.values())


def check_entry(row: Json, task: Task, identity: ProblemIdentity | None, envs: BenchEnvs) -> str:
    """Explain why a row does not count on the problem of a task; empty if it does."""
    error = check_row(row | {"env": task.env, "env_kwargs": task.make_kwargs}, envs)
    if error or not row["placement"]:
        return error
    return "" if identify_row(row) == identity else "its model, costs or devices are others"


def name_run(row: Json) -> str:
    """Agent, model and seed of a row."""
    return f"{row['label']}, {row['model']}, seed {row['seed']}"
