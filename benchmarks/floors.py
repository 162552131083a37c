"""Classic placers on the published workloads with little memory, at equal evaluations and seconds.

    python benchmarks/floors.py --data DIR --out OUT                      # at equal evaluations
    python benchmarks/floors.py --data DIR --out OUT --seconds 1,10,60    # and at equal wall time

DIR holds the inputs of dnn-partitioning. OUT gets a line of ``floors.jsonl`` for each run, and the
tables ``floors.csv`` and ``floors.md``; the same command continues what was interrupted. One long
run serves every budget of a placer, unless the budget shapes what it does. Wall time begins when
the agent is made, after a warm-up on a small problem. With more workers than idle cores it says
little.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from floor_runs import ANYTIME, DEVICES, PLANNED, TIMED, Job, Placer, run_job
from floor_tables import write_tables

from placement_gym.bench.run.agents import UNCHANGED, registered_agents
from placement_gym.bench.run.rows import append_line, cut_torn_line, lock_folder
from placement_gym.bench.run.threads import limit_threads
from placement_gym.processes.watchdog import exit_with_parent
from placement_gym.progress import progress_bar

PLACERS = (
    Placer("random"),
    Placer("random-blocks"),
    Placer("prefix", kind=PLANNED),
    Placer("window", kind=PLANNED),
    Placer("hill-climb"),
    Placer("hill-climb", {"start": "quick"}),
    Placer("hill-climb", {"start": "random"}),
    Placer("annealing", kind=PLANNED),
    Placer("annealing", {"start": "quick"}, PLANNED),
    Placer("annealing", {"start": "random"}, PLANNED),
    Placer("genetic"),
    Placer("genetic", {"start": "quick"}),
    Placer("genetic", {"start": "random"}),
    Placer("fill-in-order"),
    Placer("heft"),
    Placer("m-etf"),
    Placer("milp", kind=TIMED),
    Placer("search"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="inputs of dnn-partitioning")
    parser.add_argument("--out", type=Path, required=True, help="folder of rows and tables")
    parser.add_argument("--evaluations", default="100,500,2000", help="budgets (%(default)s)")
    parser.add_argument("--seconds", default="", help="budgets of wall time, as in 1,10,60")
    parser.add_argument("--seeds", type=int, default=5, help="how many (%(default)s)")
    parser.add_argument("--agents", default="", help="names, comma-separated (all)")
    parser.add_argument("--models", default="", help="parts of names, comma-separated (all)")
    parser.add_argument("--devices", default=",".join(DEVICES), help="%(default)s")
    parser.add_argument("--repair", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--workers", type=int, default=1, help="processes (%(default)s)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = list(plan_jobs(options))
    rows = run_jobs(jobs, options.out, options.workers)
    print(write_tables(rows, options.out, " ".join(["python", *sys.argv])))


def plan_jobs(options: argparse.Namespace) -> Iterator[Job]:
    """The runs that the options ask for."""
    evaluations = tuple(int(part) for part in options.evaluations.split(",") if part)
    seconds = tuple(float(part) for part in options.seconds.split(",") if part)
    repairs = {"no": [False], "yes": [True], "both": [False, True]}[options.repair]
    models = find_models(options.data, options.models.split(","))
    devices = options.devices.split(",")
    placers = choose_placers([name for name in options.agents.split(",") if name])
    seeds = range(options.seeds)
    for seed, model, count, repair, placer in product(seeds, models, devices, repairs, placers):
        if repair and placer.name in UNCHANGED:
            continue
        job = Job(str(options.data), placer, model, count, seed, repair, evaluations, seconds)
        yield from split_by_budget(job)


def split_by_budget(job: Job) -> Iterator[Job]:
    """One run for each budget that shapes what the placer does."""
    longest = max(job.seconds, default=0.0)
    if job.placer.kind == ANYTIME or (job.placer.kind == TIMED and not job.seconds):
        yield job
    elif job.placer.kind == TIMED:
        for limit_s in job.seconds:
            served = job.evaluations if limit_s == longest else ()
            yield replace(job, evaluations=served, seconds=(limit_s,))
    else:
        for n in job.evaluations:
            yield replace(job, evaluations=(n,), seconds=())
        for limit_s in job.seconds:
            yield replace(job, evaluations=(), seconds=(limit_s,))


def choose_placers(names: Sequence[str]) -> list[Placer]:
    """The placers of these names, or all; those that are not registered are left out and named."""
    wanted = [placer for placer in PLACERS if not names or placer.name in names]
    known = registered_agents()
    missing = sorted({placer.name for placer in wanted if placer.name not in known})
    if missing:
        print(f"left out, as there is no such agent yet: {', '.join(missing)}", file=sys.stderr)
    return [placer for placer in wanted if placer.name in known]


def find_models(data: Path, parts: Sequence[str]) -> list[str]:
    """Workloads with latencies whose names contain one of the parts."""
    folder = data / "latency-inputs"
    names = [str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*.json")]
    return sorted(name for name in names if any(part in name for part in parts))


def run_jobs(jobs: Sequence[Job], out: Path, workers: int) -> list[dict[str, Any]]:
    """Run what has no row yet, and return the rows of all jobs."""
    path = out / "floors.jsonl"
    with lock_folder(out):
        cut_torn_line(path)
        done = {row["key"] for row in load_lines(path)}
        run_missing([job for job in jobs if job.key not in done], path, len(jobs), workers)
    keys = {job.key for job in jobs}
    return [row for row in load_lines(path) if row["key"] in keys]


def run_missing(missing: Sequence[Job], path: Path, n_jobs: int, workers: int) -> None:
    """Run jobs in processes and append their rows."""
    with (
        progress_bar(n_jobs, "runs", quiet=False) as progress,
        limit_threads(),
        ProcessPoolExecutor(
            workers, get_context("spawn"), initializer=exit_with_parent, initargs=(os.getpid(),)
        ) as pool,
    ):
        bar = progress.tasks[0].id
        progress.update(bar, completed=n_jobs - len(missing))
        running = {pool.submit(run_job, job): job for job in missing}
        for future in as_completed(running):
            append_line(path, json.dumps(future.result()).encode())
            progress.update(bar, advance=1, description=running[future].label)


def load_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, if there is one."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
