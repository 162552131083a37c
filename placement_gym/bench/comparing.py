"""Compare agents on one model: a study of one problem with a table of its runs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.base import (
    UserError,
    is_on_terminal,
    make_output_folder,
    progress_bar,
    suggest_keywords,
    to_plain,
)
from placement_gym.bench.report import (
    DRIFT_NOTE,
    TRIVIAL,
    KnownLatencies,
    LiveTable,
    announce,
    choose_score_reference,
    comparison,
    correct_drift,
    load_known_latencies,
    median_device_ms,
    state_verdict,
    warn_if_busy,
)
from placement_gym.bench.run import (
    ENGINE_AGENTS,
    SINGLE_DEVICE,
    AgentSpec,
    BenchEnv,
    BenchEnvs,
    Json,
    Task,
    check_objects,
    host,
    is_measured,
    load_runs,
    lock_folder,
    make_portable,
    remove_rows,
    versions,
)
from placement_gym.bench.study import Study, describe_kept, run_serially, run_tasks
from placement_gym.graph import FINER, MIN_USEFUL_UNITS, count_units
from placement_gym.hardware import choose_default, collect_cautions

DEFAULT_ENV = "DevicePlacement-v0"
SEARCH_AGENTS = ("random-blocks", "prefix", "window")
Document = dict[str, Any]


@suggest_keywords
def compare(
    model: Any = "resnet",
    agents: Sequence[Any] | None = None,
    env_id: str = DEFAULT_ENV,
    devices: Any = None,
    *,
    budget: int = 10,
    seeds: Sequence[int] | int = (0,),
    out: str | Path = "results",
    env_kwargs: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> Document:
    """Run agents under equal budgets, measure each finalist again and report.

    Every device alone is in the table. Runs with different seeds share no measurement. ``out`` gets
    ``results.jsonl`` (a line as each run ends), ``comparison.json``, ``table.md``,
    ``comparison.png``, ``best-so-far.png``, each run's placement as a file and a picture, and
    ``references.json`` if a bound was computed.

    An interrupted comparison continues: runs in ``out`` are not repeated, unless they failed, the
    model, costs, machine or version of OpenVINO has changed, or the agent is an object in memory.

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
        ``notes``, ``verdict``, ``interrupted`` (what an interrupt leaves, or ``""``), ``kept``
        (what ``out`` holds), ``resumed`` (how many runs were in ``out``), ``replaced`` (which rows
        were replaced, or ``""``) and ``rows``, whose measured latencies are corrected for drift.

    Raises:
        UserError: An argument is wrong; nothing has run.
    """
    folder = make_output_folder(out)
    devices, reason = choose_devices(env_id, devices)
    # Rows state arguments that any process can use: paths and objects become portable.
    kwargs = make_portable({"model": model, "devices": devices, **(env_kwargs or {})}, folder)
    with BenchEnvs() as envs:
        if not quiet:
            warn_if_busy(env_id)
        with progress_bar(None, "", quiet, description=f"reading {kwargs['model']}"):
            bench_env, kwargs, notes = open_env_to_split(envs, env_id, kwargs)
        notes = [*reason, *notes]
        specs = choose_agents(agents, bench_env.measured)
        study = plan_study(bench_env, kwargs, specs, budget, seeds)
        tasks = list_tasks(study)
        labels = {task.key: study.label(vars(task)) for task in tasks}
        factories = {spec.name: spec.factory for spec in specs if spec.factory is not None}
        # Rows of another model, machine or version cannot be compared with new ones.
        runs = load_runs(folder)
        kept = {row["key"]: row for row in runs if row["key"] in labels}
        stale = find_stale(bench_env, kept.values(), factories)
        with lock_folder(folder):
            remove_rows(folder, stale)
        rows = {key: row | {"label": labels[key]} for key, row in kept.items() if key not in stale}
        missing = [task for task in tasks if task.key not in rows]
        if not quiet:
            announce(bench_env, tasks, missing, notes)
        table = LiveTable(bench_env, tasks, missing, labels)
        for row in rows.values():
            table.add_row(row)

        def keep_run(task: Task, row: Json) -> None:
            rows[task.key] = row = row | {"label": labels[task.key]}
            comparison.save_placement(bench_env, row, folder)
            table.add_row(row)
            if not (quiet or is_on_terminal()):  # where the table shows it
                line = comparison.describe_run(row, bench_env.one_device_holds_the_model)
                print(line, file=sys.stderr, flush=True)

        # An interrupt still writes the report of what has ended.
        interrupted = ""
        try:
            run = partial(run_serially, envs=envs, factories=factories, share_within_seed=True)
            run_tasks(tasks, missing, folder, run, keep_run, table.add_sample, quiet, table)
        except KeyboardInterrupt:
            interrupted = describe_kept(len(rows), len(tasks), folder)
        ended = [rows[task.key] for task in tasks if task.key in rows]
        document = summarize(envs, tasks[0], ended, folder)
        document["notes"] += notes
        document |= {"interrupted": interrupted, "resumed": len(tasks) - len(missing)}
        replaced = set(stale.values())
        if others := sum(row["key"] not in labels for row in runs):
            replaced.add(f"Other rows of the folder, which this table leaves out: {others}.")
        document["replaced"] = " ".join(sorted(replaced))
        comparison.write_comparison(bench_env, document, {task.key for task in missing}, folder)
    return document


def choose_devices(env_id: str, devices: Any) -> tuple[Any, list[str]]:
    """Choose the devices, with a note if they are not the machine's own."""
    if not is_measured(env_id) or devices is not None:
        return devices, []
    import openvino as ov

    preset, reason = choose_default("compared", ov.Core().available_devices)
    return preset, [reason] if reason else []


def open_env_to_split(
    envs: BenchEnvs, env_id: str, kwargs: dict[str, Any]
) -> tuple[BenchEnv, dict[str, Any], list[str]]:
    """Make the environment, with finer units if there are few; return its arguments and notes."""
    # Rules may name several devices for parts of one unit, and a profile needs several placements:
    # units are counted without either.
    strict = {
        name: value
        for name, value in kwargs.items()
        if name == "constraints" or (name, value) == ("costs", "profiled")
    }
    plain = {name: value for name, value in kwargs.items() if name not in strict}
    problem, notes = envs.get(env_id, plain).base.problem, []
    finer = () if "granularity" in kwargs else FINER.values()
    for granularity in finer:
        if problem.n_units >= MIN_USEFUL_UNITS:
            break
        with suppress(UserError):  # published workloads have no fused units
            fine = envs.get(env_id, {**plain, "granularity": granularity}).base.problem
            counts = count_units(problem.units)
            notes = [f"the default granularity leaves {counts}: {granularity!r} is used"]
            problem, plain = fine, {**plain, "granularity": granularity}
    kwargs = {**plain, **strict}
    bench_env = envs.get(env_id, kwargs)
    problem = bench_env.base.problem
    if len(problem.device_names) == 1:
        only = problem.device_names[0]
        notes.append(f"{only} is the only device: name two or more to split, as in CPU,GPU")
    if problem.n_units < MIN_USEFUL_UNITS:
        notes.append(f"there is little to place: {count_units(problem.units)}")
    return bench_env, kwargs, notes


def choose_agents(agents: Sequence[Any] | None, measured: bool) -> list[AgentSpec]:
    if agents is None:
        agents = [*(ENGINE_AGENTS if measured else ()), *SEARCH_AGENTS]
    specs = [spec for spec in map(AgentSpec.from_value, agents) if spec.name != SINGLE_DEVICE]
    for spec in specs:
        spec.check()
    check_objects(specs)
    return specs


def plan_study(
    bench_env: BenchEnv,
    kwargs: Mapping[str, Any],
    specs: Sequence[AgentSpec],
    budget: int,
    seeds: Sequence[int] | int,
) -> Study:
    """Plan a study of one problem: every device alone, then the agents."""
    problem = bench_env.base.problem
    alone = [
        AgentSpec(SINGLE_DEVICE, {"device": name})
        for name, runs_all in zip(problem.device_names, problem.runs_all, strict=True)
        if runs_all
    ]
    return Study(
        env=bench_env.env_id,
        models=[kwargs["model"]],
        agents=[
            {"name": spec.name, "kwargs": dict(spec.kwargs), "label": spec.label}
            for spec in (*alone, *specs)
        ],
        budget=budget,
        devices=[kwargs["devices"]],
        seeds=seeds,
        env_kwargs={key: kwargs[key] for key in kwargs if key not in ("model", "devices")},
    )


def list_tasks(study: Study) -> list[Task]:
    """List single devices with the first seed, then every agent with every seed."""
    first = study.all_seeds[0]
    return [task for task in study.tasks() if task.agent != SINGLE_DEVICE or task.seed == first]


def find_stale(
    bench_env: BenchEnv, rows: Collection[Json], in_memory: Collection[str]
) -> dict[str, str]:
    """Find the rows whose runs must be repeated: key -> reason."""
    origin, machine = bench_env.origin, (host(), versions().get("openvino"))

    def explain(row: Json) -> str:
        if row["error"]:
            return "Failed runs were done again."
        if row["agent"] in in_memory:  # another object may have had this name
            return "Runs of agents that are objects in memory were done again."
        if any(row[name] != value for name, value in origin.items()):
            return "Runs of another version of the model, its costs or devices were replaced."
        if bench_env.measured and (row["host"], row["versions"].get("openvino")) != machine:
            return "Runs of another machine or version of OpenVINO were replaced."
        return ""

    return {row["key"]: reason for row in rows if (reason := explain(row))}


def summarize(envs: BenchEnvs, task: Task, rows: Sequence[Json], folder: Path) -> Document:
    """Summarize the runs that have ended; ``folder`` keeps their bounds."""
    bench_env, rows = envs.get(task.env, task.make_kwargs), correct_drift(rows)
    base, problem = bench_env.base, bench_env.base.problem
    found = load_known_latencies(rows, {task.problem: task}, folder, envs)
    known = found.get(task.problem, KnownLatencies())
    reference_ms = median_device_ms(rows, "latency_ms", "speedup")
    unlimited = base.singles.fastest(limited=False).speedup
    noise = [row["noise"] for row in rows if row["noise"]]
    notes = [
        *collect_cautions(problem.devices, bench_env.measured),
        *([TRIVIAL] if choose_score_reference(known, rows).trivial else []),
        *([DRIFT_NOTE] if bench_env.measured else []),
    ]
    document = {
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
        "notes": notes,
        "verdict": state_verdict(rows, bench_env.one_device_holds_the_model),
        "rows": rows,
    }
    return dict(to_plain(document))
