"""The entries of a leader board: agents whose placements a replay confirms.

Folders may be strangers'. A row belongs to the entry of the folder that it is in, and no row of
one entry decides what becomes of another.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from placement_gym.base.errors import UserError
from placement_gym.base.progress import progress_bar
from placement_gym.bench.known.identity import ProblemIdentity, digest, identify
from placement_gym.bench.report.drift import correct_drift
from placement_gym.bench.report.known_latencies import find_recorded
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.run.agents import IMPORTABLE, AgentSpec, registered_agents
from placement_gym.bench.run.environment import BenchEnvs
from placement_gym.bench.run.rows import Json, read_runs
from placement_gym.bench.study.row_checks import check_rows, name_run
from placement_gym.bench.study.spec import Study
from placement_gym.bench.study.task import Task

SET = "placement-bench-1"
"""The set of the package, which never changes; another one gets the next number."""
MAX_NAME = 100
"""Characters of an entry's name, which has a cell of the table."""
MAX_REASONS = 3
"""Sentences on one entry, or on the damaged lines of one folder."""


@dataclass(frozen=True)
class Entry:
    """The runs of the set that one folder has of one agent.

    Attributes:
        folder: Where they are.
        agent: The agent with its options; its label is the entry's name.
        rows: One for each run, if the entry is complete.
        errors: Why the entry does not count, a sentence for each reason.
    """

    folder: Path
    agent: AgentSpec
    rows: list[Json] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.agent.label

    @property
    def reasons(self) -> list[str]:
        """Sentences for the page, with the folder and the entry."""
        return explain(self.folder, self.errors)


@dataclass(frozen=True)
class Entries:
    """The contents of a board.

    Attributes:
        study: Its problems, seeds and budget are the set.
        identity: Sixteen hex digits of them: of models, costs, devices and schedules, not of names.
        results: All rows that count.
        left_out: A sentence for each entry and row that does not count.
    """

    study: Study
    identity: str
    results: StudyResults
    left_out: Sequence[str]


def collect_entries(study: Study, folders: Sequence[Path], quiet: bool = False) -> Entries:
    """Replay the rows of a set of problems, and keep the agents that have a valid row of each run.

    Environments are made from the set, not from the rows, so that a row cannot bring its own.

    Raises:
        UserError: The folders have no row of the set, or two complete entries have one name.
    """
    entries, left_out = read_entries(study, folders)
    if not entries:
        raise UserError(
            "these folders have no rows with the set's problems, seeds and budget: run "
            f"`placement-gym bench run {SET} --agents AGENT --out FOLDER` first"
        )
    for entry in entries:
        entry.errors.extend(find_faults(entry, study))
    replay_entries([entry for entry in entries if not entry.errors], study, quiet)
    complete = [entry for entry in entries if not entry.errors]
    check_names(complete)
    left_out += [reason for entry in entries for reason in entry.reasons]
    corrected_rows = correct_drift([row for entry in complete for row in entry.rows])
    results = StudyResults(corrected_rows, find_recorded(corrected_rows))
    return Entries(study, digest_set(study, identify_problems(study, quiet)), results, left_out)


def read_entries(study: Study, folders: Sequence[Path]) -> tuple[list[Entry], list[str]]:
    """The entries of all folders, and a sentence for each line that is damaged.

    Rows of other problems, seeds or budgets are not of the set.
    """
    runs = set(map(name_slot, study.tasks()))
    entries: list[Entry] = []
    damaged: list[str] = []
    for folder in {folder.resolve(): folder for folder in folders}.values():
        rows, lines = read_runs(folder)
        damaged += explain(folder, lines)
        entry_of: dict[str, Entry] = {}
        for row in (row for row in rows if name_slot(Task.of_row(row)) in runs):
            agent = AgentSpec(row["agent"], row["kwargs"])
            key = json.dumps([agent.name, agent.kwargs], sort_keys=True)
            entry_of.setdefault(key, Entry(folder, agent)).rows.append(row)
        entries += entry_of.values()
    return entries, damaged


def name_slot(task: Task) -> str:
    """The problem, seed and budget of a task: what tells the runs of one agent from each other."""
    return json.dumps([task.problem, task.seed, task.budget, dict(task.score_on)], sort_keys=True)


def find_faults(entry: Entry, study: Study) -> list[str]:
    """List the faults of an entry that need no replay: its name, and missing runs."""
    is_importable = entry.agent.name in registered_agents() or IMPORTABLE.fullmatch(
        entry.agent.name
    )
    if not (is_importable and entry.name.isascii() and entry.name.isprintable()):
        rule = "an agent of this package, or module:attribute in plain letters"
        return [f"{entry.name!r:.200} is no name of an entry: {rule}"]
    if len(entry.name) > MAX_NAME:
        return [f"{entry.name:.40}... has a name of more than {MAX_NAME} characters"]
    counts = Counter(row["key"] for row in entry.rows)
    errors = [
        f"{name_run(row)}: its run has {counts[row['key']]} rows"
        for row in {row["key"]: row for row in entry.rows}.values()
        if counts[row["key"]] > 1
    ]
    n_runs = len(set(map(name_slot, study.tasks())))
    missing = [f"{entry.name} has {len(counts)} of {n_runs} runs"] if len(counts) < n_runs else []
    return errors + missing


def replay_entries(entries: Sequence[Entry], study: Study, quiet: bool) -> None:
    """Replay the rows of entries, those of one problem together, and add what does not hold."""
    entry_rows = [(entry, row) for entry in entries for row in entry.rows]
    for place, error in check_rows([row for _, row in entry_rows], study, quiet):
        entry, row = entry_rows[place]
        if error:
            entry.errors.append(f"{name_run(row)}: {error}")


def check_names(entries: Sequence[Entry]) -> None:
    """Raise if two entries that count have one name: neither may take the place of the other.

    Raises:
        UserError: Two have; the message names their folders.
    """
    first: dict[str, Entry] = {}
    for entry in entries:
        other = first.setdefault(entry.name.casefold(), entry)
        if other is not entry:
            raise UserError(
                f"two entries are called {entry.name!r:.200}, of {other.folder} and of "
                f"{entry.folder}: remove one of them, or rename the agent"
            )


def identify_problems(study: Study, quiet: bool) -> list[ProblemIdentity | None]:
    """The identity of each problem of a set; None where latencies are measured."""
    tasks = {task.problem: task for task in study.tasks()}.values()
    with BenchEnvs() as envs, progress_bar(len(tasks), "problems", quiet) as progress:
        identities = []
        for task in tasks:
            identities.append(identify(envs.get(task.env, task.make_kwargs).base.backend))
            progress.advance(progress.task_ids[0])
    return identities


def digest_set(study: Study, identities: Sequence[ProblemIdentity | None]) -> str:
    """Sixteen hex digits of a set: its problems, None where measured, its seeds and budget."""
    keys = [identity and identity.key for identity in identities]
    return digest(json.dumps([keys, study.all_seeds, study.budget]))


def explain(folder: Path, errors: Sequence[str]) -> list[str]:
    """The first few errors of a folder's rows as sentences, and how many more there are."""
    more = len(errors) - MAX_REASONS
    sentences = [*errors[:MAX_REASONS], *([f"and {more} more of these"] if more > 0 else [])]
    return [f"{folder}: {error}" for error in sentences]
