"""Compare agents on one model: a study of one problem with a table of its runs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.base import (
    flat_keywords,
    is_on_terminal,
    make_output_folder,
    progress_bar,
    to_plain,
)
from placement_gym.base.schemas import EffortFields, check
from placement_gym.bench.problem_setup import choose_devices, open_env_to_split
from placement_gym.bench.report import (
    NOTE,
    TRIVIAL,
    LiveTable,
    announce,
    choose_score_reference,
    correct_drift,
    describe_run,
    find_known_latencies,
    median_device_ms,
    state_verdict,
    warn_if_busy,
)
from placement_gym.bench.report import comparison_files as files
from placement_gym.bench.run import (
    ENGINE_AGENTS,
    PACKED_ROWS,
    ROWS,
    SINGLE_DEVICE,
    AgentSpec,
    BenchEnv,
    BenchEnvs,
    Json,
    check_labels,
    check_objects,
    host,
    load_rows,
    load_runs,
    lock_folder,
    make_portable,
    remove_rows,
    versions,
)
from placement_gym.bench.study import Serial, Task, describe_kept, find_missing, run_tasks
from placement_gym.hardware import collect_cautions

DEFAULT_ENV = "DevicePlacement-v0"
SEARCH_AGENTS = ("random-blocks", "prefix", "window")
Document = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A task with its agent, which may be an object in memory."""

    task: Task
    agent: AgentSpec


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Budget and seeds of each agent; ``compare`` documents the keywords."""

    budget: int = 10
    seeds: Sequence[int] | int = (0,)

    def __post_init__(self) -> None:
        fields = check(EffortFields, {"budget": self.budget, "seeds": self.seeds})
        object.__setattr__(self, "budget", fields.budget)

    def list_seeds(self) -> Sequence[int]:
        """Each seed once."""
        return range(self.seeds) if isinstance(self.seeds, int) else list(dict.fromkeys(self.seeds))


@flat_keywords(effort=Effort)
def compare(  # noqa: D417  the keywords of the group are described
    model: Any = "resnet",
    agents: Sequence[Any] | None = None,
    env_id: str = DEFAULT_ENV,
    devices: Any = None,
    *,
    effort: Effort,
    out: str | Path = "results",
    env_kwargs: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> Document:
    """Run agents under equal budgets, measure each finalist again and report.

    Every device alone is always in the table. Runs with different seeds share no measurement.
    ``out`` gets ``results.jsonl`` (one line per run, appended as it ends), ``comparison.json``,
    ``table.md``, ``comparison.png``, ``best-so-far.png`` and for each run its placement as a file
    and a picture.

    A run that ``out`` already holds is not done again: an interrupted comparison continues. Failed
    runs, runs on a model or costs that have changed, runs that another machine or version of
    OpenVINO measured, and runs of agents that are objects in memory are done again and replace
    their rows.

    Args:
        model: As for ``gym.make``.
        agents: Names, ``"module:attribute"``, ``{"name", "kwargs", "label"}``, factories or objects
            with ``predict``; None takes OpenVINO's own choice, random blocks, prefix and window.
        env_id: Id of the environment.
        devices: As for ``gym.make``; None on a machine with one device means the preset
            ``cpu-testbed-limited`` where latencies are measured: a split can win there.
        budget: Evaluations that each agent may use.
        seeds: Each agent runs with each seed; a number n means 0 to n - 1.
        out: Folder for the results.
        env_kwargs: Further arguments of ``gym.make``.
        quiet: Show no progress.

    Returns:
        The comparison as one JSON-able document: ``env``, ``env_kwargs``, ``model``, ``devices``,
        ``n_units``, ``reference``, ``reference_ms``, ``best_single_ms``,
        ``best_single_unlimited_ms``, ``optimum_ms``, ``bound_ms``, ``best_known_ms``, ``noise``,
        ``notes``, ``verdict``, ``interrupted`` (what an interrupt leaves, or an empty string),
        ``kept`` (what ``out`` holds), ``resumed`` (runs that ``out`` held before),
        ``replaced`` (a sentence on what was replaced, or an empty string) and ``rows``. Latencies
        of measured rows are corrected for drift; ``results.jsonl`` holds them as measured.

    Raises:
        UserError: An argument is wrong; nothing has run then.
    """
    folder = make_output_folder(out)
    devices, reason = choose_devices(env_id, devices)
    # Rows must say what was run wherever they are read: paths and objects become portable.
    kwargs = {"model": model, "devices": devices, **(env_kwargs or {})}
    kwargs = make_portable(kwargs, folder)
    with BenchEnvs() as envs:
        if not quiet:
            warn_if_busy(env_id)
        with progress_bar(None, "", quiet, description=f"reading {kwargs['model']}"):
            bench_env, kwargs, notes = open_env_to_split(envs, env_id, kwargs)
        notes = [*reason, *notes]
        specs = choose_agents(bench_env, agents)
        # Rows that another model, machine or version made would be compared with new ones: they are
        # replaced, and the document says so.
        runs = plan_runs(bench_env, env_id, kwargs, specs, effort)
        stale = find_stale_runs(bench_env, runs, folder)
        with lock_folder(folder):
            remove_rows(folder, stale)
        # The same agent and seed given twice is one run.
        tasks = [*{run.task.key: run.task for run in runs}.values()]
        labels = {run.task.key: run.agent.label for run in runs}
        undone = {task.key for task in find_missing(tasks, folder)} | set(stale)
        missing = [task for task in tasks if task.key in undone]
        if not quiet:
            announce(bench_env, tasks, missing, notes)
        table = LiveTable(bench_env, tasks, missing, labels)
        for row in load_rows_of(runs, folder, stale):
            table.add_row(row)
        factories = {spec.name: spec.factory for spec in specs if spec.factory is not None}
        # An interrupt still writes the report of what has ended.
        interrupted = ""
        try:
            executor = Serial(envs, factories, share_within_seed=True, on_sample=table.add_sample)
            on_row = partial(keep_run, bench_env, labels, folder, table, quiet)
            run_tasks(tasks, missing, folder, executor, on_row, quiet, table)
        except KeyboardInterrupt:
            interrupted = describe_kept(len(load_rows_of(runs, folder, stale)), len(tasks), folder)
        document = summarize(bench_env, load_rows_of(runs, folder, stale)) | {
            "interrupted": interrupted,
            "resumed": len(tasks) - len(missing),
        }
        document["notes"] += notes
        document["replaced"] = " ".join(
            [*set(stale.values()), *files.describe_replaced(document, folder)]
        )
        new_keys = {task.key for task in missing}
        undrawn = files.draw_runs(document, folder)
        undrawn += files.draw_placements(bench_env, document["rows"], new_keys, folder)
        document["notes"] += undrawn
        pictures = "" if undrawn else ", pictures"
        document["kept"] = f"Rows, table{pictures} and placements"
        files.write_comparison(document, folder)
    return document


def keep_run(
    bench_env: BenchEnv,
    labels: Mapping[str, str],
    folder: Path,
    table: LiveTable,
    quiet: bool,
    task: Task,
    row: Json,
) -> None:
    """Save the placement of a run that has ended, and show its result on standard error."""
    labelled = row | {"label": labels[task.key]}
    files.save_placement(bench_env, labelled, folder)
    table.add_row(row)
    if not (quiet or is_on_terminal()):  # where the table shows it
        line = describe_run(labelled, bench_env.one_device_holds_the_model)
        print(line, file=sys.stderr, flush=True)


def choose_agents(bench_env: BenchEnv, agents: Sequence[Any] | None) -> list[AgentSpec]:
    """The agents to run besides single devices.

    Raises:
        UnknownAgentError: A name is unknown or cannot be imported.
        UserError: Two agents have the same label, or an object has the name of another agent.
    """
    if agents is None:
        agents = [*(ENGINE_AGENTS if bench_env.measured else ()), *SEARCH_AGENTS]
    specs = map(AgentSpec.of, agents)
    selected = [spec for spec in specs if spec.name != SINGLE_DEVICE]
    for spec in selected:
        spec.check()
    check_labels(selected)
    check_objects(selected)
    return selected


def plan_runs(
    bench_env: BenchEnv,
    env_id: str,
    kwargs: Mapping[str, Any],
    agents: Sequence[AgentSpec],
    effort: Effort,
) -> list[Run]:
    """Single devices with the first seed, then every agent with every seed."""
    problem = bench_env.base.problem
    single_runs = [
        AgentSpec(SINGLE_DEVICE, {"device": name})
        for name, runs_all in zip(problem.device_names, problem.runs_all, strict=True)
        if runs_all
    ]
    seeds = effort.list_seeds()
    pairs = [(spec, seeds[0]) for spec in single_runs]
    pairs += [(spec, seed) for seed in seeds for spec in agents]
    common: dict[str, Any] = {
        "env": env_id,
        "env_kwargs": {key: kwargs[key] for key in kwargs if key not in ("model", "devices")},
        "model": kwargs["model"],
        "devices": kwargs["devices"],
        "budget": effort.budget,
    }
    return [
        Run(Task(agent=spec.name, kwargs=dict(spec.kwargs), seed=seed, **common), spec)
        for spec, seed in pairs
    ]


def find_stale_runs(bench_env: BenchEnv, runs: Sequence[Run], folder: Path) -> dict[str, str]:
    """Keys of runs in the folder that have to be done again, with the reason."""
    origin, machine = bench_env.origin, (host(), versions().get("openvino"))
    by_key = {row["key"]: row for row in load_runs(folder)}
    stale = {}
    for run in runs:
        key = run.task.key
        row = by_key.get(key)
        if row is None:
            continue
        if row["error"]:
            stale[key] = "Failed runs were done again."
        elif run.agent.factory is not None:
            stale[key] = "Runs of agents that are objects in memory were done again."
        elif any(row[name] != value for name, value in origin.items()):
            stale[key] = "Runs of another version of the model, its costs or devices were replaced."
        elif bench_env.measured and (row["host"], row["versions"].get("openvino")) != machine:
            stale[key] = "Runs of another machine or version of OpenVINO were replaced."
    return stale


def load_rows_of(runs: Sequence[Run], folder: Path, stale: Collection[str]) -> list[Json]:
    """The rows of finished runs, labelled as the caller labels the agents.

    Args:
        runs: All of them.
        folder: Of the results.
        stale: Keys of runs that were done again; published rows of them do not count.
    """
    published = [row for row in load_rows(folder / PACKED_ROWS) if row["key"] not in stale]
    by_key = {row["key"]: row for row in (*published, *load_rows(folder / ROWS))}
    return [
        by_key[run.task.key] | {"label": run.agent.label} for run in runs if run.task.key in by_key
    ]


def summarize(bench_env: BenchEnv, rows: Sequence[Json]) -> Document:
    """The comparison of rows as a JSON-able document."""
    base, rows = bench_env.base, correct_drift(rows)
    problem = base.problem
    known = find_known_latencies(bench_env, rows)
    reference_ms = median_device_ms(rows, "latency_ms", "speedup")
    unlimited = base.singles.fastest(limited=False).speedup
    noise = [row["noise"] for row in rows if row["noise"]]
    notes = collect_cautions(problem.devices, bench_env.measured)
    if choose_score_reference(known, rows).trivial:
        notes.append(TRIVIAL)
    document: Document = to_plain(
        {
            "env": bench_env.env_id,
            "env_kwargs": dict(bench_env.env_kwargs),
            "model": problem.units.graph.model,
            "devices": list(problem.device_names),
            "n_units": problem.n_units,
            "reference": problem.device_names[problem.reference_device],
            "reference_ms": reference_ms,
            "best_single_ms": known.best_single_ms,
            "best_single_unlimited_ms": reference_ms / unlimited,
            "optimum_ms": known.optimum_ms,
            "bound_ms": known.bound_ms,
            "best_known_ms": known.best_known_ms,
            "noise": float(np.median(noise)) if noise else None,
            "notes": [*notes, NOTE] if bench_env.measured else notes,
            "verdict": state_verdict(rows, bench_env.one_device_holds_the_model),
            "rows": rows,
        }
    )
    return document
