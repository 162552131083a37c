"""Compare agents on one model: the honest table, its files and its picture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from placement_gym.bench.report.optimum import optimum_or_bound
from placement_gym.bench.report.tables import write_report
from placement_gym.bench.run import rows as rows_file
from placement_gym.bench.run.agent_run import run_agent
from placement_gym.bench.run.agents import AgentSpec, check_labels
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.rows import Row
from placement_gym.devices import collect_cautions
from placement_gym.env import DevicePlacementEnv
from placement_gym.errors import UserError
from placement_gym.placement import Placement
from placement_gym.progress import progress_bar

DEFAULT_ENV = "DevicePlacement-v0"
SINGLE_DEVICE = "single-device"
ENGINE_AGENTS = ("openvino-hetero", "openvino-auto")
SEARCH_AGENTS = ("random", "random-blocks", "prefix", "window")
Document = dict[str, Any]


def compare(
    model: Any = "resnet",
    agents: Sequence[Any] | None = None,
    env_id: str = DEFAULT_ENV,
    devices: Any = None,
    budget: int = 10,
    seeds: Sequence[int] = (0,),
    out: str | Path = "results",
    env_kwargs: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> Document:
    """Run agents under equal budgets, re-measure each finalist afresh and report.

    Every device alone is always in the table. ``out`` gets ``results.jsonl`` (a line a run,
    appended as it ends), ``table.md``, ``comparison.png`` and for each run its placement as a
    file and a picture.

    Args:
        model: As for ``gym.make``.
        agents: Names, ``"module:attribute"``, ``{"name", "kwargs"}``, factories or objects with
            ``predict``; None takes OpenVINO's own choice, random, random blocks, prefix, window.
        env_id: Which environment.
        devices: As for ``gym.make``.
        budget: Evaluations that each agent may use.
        seeds: Seeds; each agent runs with each.
        out: Folder for the results.
        env_kwargs: Further arguments of ``gym.make``.
        quiet: Show no progress.

    Returns:
        The comparison as one JSON-able document: ``env``, ``env_kwargs``, ``model``,
        ``devices``, ``reference``, ``reference_ms``, ``best_single_ms``,
        ``best_single_unlimited_ms``, ``optimum_ms``, ``bound_ms``, ``noise``, ``notes``,
        ``interrupted`` and ``rows``.

    Raises:
        ValueError: An argument is wrong; nothing has run then.
    """
    if budget < 1:
        raise UserError(f"budget must be at least 1, not {budget}")
    if not seeds:
        raise UserError("seeds must not be empty")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    bench_env = BenchEnv.make(
        env_id, {"model": model, "devices": devices, **(env_kwargs or {})}, folder
    )
    runs = [(single, seeds[0]) for single in single_devices(bench_env)]
    runs += [(agent, seed) for agent in line_up(bench_env, agents) for seed in seeds]
    rows: list[Row] = []
    interrupted = False
    with (
        rows_file.sole_writer(folder),
        progress_bar(len(runs) * budget, "evaluations", quiet) as report,
    ):
        try:
            for agent, seed in runs:
                run_and_save(bench_env, agent, seed, budget, folder, report, rows)
        except KeyboardInterrupt:
            interrupted = True
    document = summarise(bench_env, rows, interrupted)
    write_report(document, folder)
    bench_env.close()
    return document


def single_devices(bench_env: BenchEnv) -> list[AgentSpec]:
    """Every device that runs the whole model, alone."""
    problem = bench_env.base.problem
    named = zip(problem.device_names, problem.runs_all, strict=True)
    return [AgentSpec(SINGLE_DEVICE, {"device": name}) for name, alone in named if alone]


def line_up(bench_env: BenchEnv, agents: Sequence[Any] | None) -> list[AgentSpec]:
    """The agents asked for; single devices are there anyway.

    Raises:
        UnknownAgentError: A name cannot be resolved.
        ValueError: Two agents have one label.
    """
    if agents is None:
        agents = [*(ENGINE_AGENTS if bench_env.measured else ()), *SEARCH_AGENTS]
    chosen = [spec for spec in map(AgentSpec.of, agents) if spec.name != SINGLE_DEVICE]
    for spec in chosen:
        spec.load()
    check_labels(chosen)
    return chosen


def run_and_save(
    bench_env: BenchEnv,
    agent: AgentSpec,
    seed: int,
    budget: int,
    folder: Path,
    report: Progress,
    rows: list[Row],
) -> None:
    """One run: its row, first into the file, its placement and its picture."""
    task = report.task_ids[0]
    end = report.tasks[0].completed + budget
    report.update(task, description=agent.label)
    row, placement = run_agent(bench_env, agent, seed, budget, lambda: report.advance(task))
    rows_file.append(folder / rows_file.ROWS, row)
    rows.append(row)
    report.update(task, completed=end)
    if placement is not None:
        name = re.sub(r"[^\w-]+", "-", f"{row.model}-{agent.label}-seed{seed}")
        placement.save(folder / f"{name}.json")
        draw(bench_env, row, placement, folder / f"{name}.png")


def draw(bench_env: BenchEnv, row: Row, placement: Placement, path: Path) -> None:
    from placement_gym.plots.placement import draw_placement
    from placement_gym.plots.style import save

    problem = bench_env.base.problem
    title = f"{row.model}, {row.label}: {row.speedup_vs_best_single:.3f} x the best single device"
    save(draw_placement(problem, placement.assignment(problem), title), path)


def summarise(bench_env: BenchEnv, rows: Sequence[Row], interrupted: bool) -> Document:
    base = bench_env.base
    noise = [row.noise for row in rows if row.noise]
    document: Document = rows_file.plain(
        {
            "env": bench_env.env_id,
            "env_kwargs": dict(bench_env.env_kwargs),
            "model": base.problem.units.graph.model,
            "devices": list(base.problem.device_names),
            "reference": base.problem.device_names[base.problem.reference_device],
            **single_latencies(base),
            **optimum_or_bound(base, [row.latency_ms for row in rows if row.latency_ms]),
            "noise": float(np.median(noise)) if noise else None,
            "notes": collect_cautions(base.problem.devices, bench_env.measured),
            "interrupted": interrupted,
            "rows": [row.to_json() for row in rows],
        }
    )
    return document


def single_latencies(env: DevicePlacementEnv) -> dict[str, float | None]:
    """What the fastest devices alone take, in one interleaved frame with the reference."""
    reference_ms = env.reference.reference_ms
    best = env.singles.best()
    return {
        "reference_ms": reference_ms,
        "best_single_ms": None if best is None else reference_ms / env.singles.fastest().speedup,
        "best_single_unlimited_ms": reference_ms / env.singles.fastest(limited=False).speedup,
    }
