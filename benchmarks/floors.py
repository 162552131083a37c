r"""Searches and placers where memory is scarce, at equal evaluations and at equal CPU seconds.

    python benchmarks/floors.py --data DIR --out OUT                      # at equal evaluations
    python benchmarks/floors.py --data DIR --out OUT --evaluations "" --seconds 0.03,0.1,0.3,1,3,10
    python benchmarks/floors.py --rows docs/results/floors/floors.jsonl.xz --out OUT  # tables alone

DIR holds workloads: the inputs of dnn-partitioning, or files of their format. OUT gets a line of
``floors.jsonl`` for each run, and ``floors.csv`` with the results on each problem, whose means are
printed; the same command continues what was interrupted. One long run serves every budget of an
anytime placer. Seconds are of the process that runs a placer, from when it is made, after an
untimed run on the smallest workload.

    python benchmarks/floors.py --generated synthetic-layered-80000,stacked-bert-80000 --out OUT \
        --devices 1cpu+2acc@0.3 --evaluations "" --seconds 60 --agents heft,annealing,search

runs them on generated graphs in place of workloads.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from common import (
    BY_RANK,
    Meter,
    Row,
    append_row,
    best_known_ms,
    describe_env,
    describe_run,
    make_env,
    make_parser,
    read_rows,
    search,
)
from floor_tables import write_tables
from rich.progress import track

from placement_gym.base.arguments import MAX_INTEGER
from placement_gym.base.processes.serving import exit_with_parent
from placement_gym.bench.run.agents import UNCHANGED, AgentSpec
from placement_gym.bench.run.provenance import origin
from placement_gym.bench.run.rows import cut_torn_line, lock_folder
from placement_gym.bench.study.executors import limit_threads
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.hardware.device_requests import parse_counts
from placement_gym.solvers.bounds import load_ms

DEVICES = "1cpu+1acc@0.5,1cpu+2acc@0.3,1cpu+4acc@0.2"
TRIAL = 50
"""Evaluations on the smallest workload before a run, so that compiled code is loaded."""
ANYTIME, PLANNED = "anytime", "planned"
"""One run serves all budgets; the budget shapes the search."""


@dataclass(frozen=True)
class Placer:
    """An agent of the table: its name and options, and what a budget means to it."""

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict, hash=False)
    kind: str = ANYTIME

    @property
    def spec(self) -> AgentSpec:
        return AgentSpec(self.name, self.kwargs)


PLACERS = (
    Placer("random"),
    Placer("random-blocks"),
    Placer("prefix", kind=PLANNED),
    Placer("window", kind=PLANNED),
    *(Placer("hill-climb", start) for start in ({}, {"start": "quick"}, {"start": "random"})),
    *(Placer("annealing", s, PLANNED) for s in ({}, {"start": "quick"}, {"start": "random"})),
    Placer("fill-in-order"),
    Placer("heft"),
    Placer("m-etf"),
    Placer("search"),
    Placer("graph-groups", kind=PLANNED),
    Placer("hsdag", kind=PLANNED),
)


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        placer: Which agent places.
        model: Workload, as in ``"LayerGraphs/bert24_inference"``, or generated graph.
        devices: Counts and memory share.
        seed: Of the agent.
        repair: True if the environment repairs placements.
        evaluations: Budgets; the run goes on until all are reached.
        cpu_seconds: Budgets likewise.
        files: Of this workload and of the smallest one; generated graphs have none.
    """

    placer: Placer
    model: str
    devices: str
    seed: int
    repair: bool
    evaluations: tuple[int, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    files: tuple[Path, ...] = ()

    @property
    def key(self) -> str:
        """Text that no other run has, wherever the workloads are."""
        budgets = f"{self.evaluations} {self.cpu_seconds}"
        parts = (self.placer.spec.label, self.model, self.devices, self.seed, self.repair, budgets)
        return "|".join(map(str, parts))

    def make_env(self) -> DevicePlacementEnv:
        """The environment; devices of a generated graph are a CPU and GPUs."""
        kwargs: dict[str, Any] = {"observe_graph": False, "repair": self.repair}
        if self.files:
            workload = {"granularity": "op", "schedule": BY_RANK, "devices": self.devices}
            return make_env(self.files[0], **kwargs, **workload)
        known = [device.to_json() for device in parse_counts(self.devices) or ()]
        renamed = [one | {"name": one["name"].replace("ACC", "GPU")} for one in known]
        return make_env(self.model, **kwargs, devices=renamed, schedule="list")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of rows and tables")
    parser.add_argument("--data", type=Path, nargs="*", default=[], help="folders of workloads")
    parser.add_argument("--generated", default="", help="graphs to place, comma-separated")
    parser.add_argument("--rows", type=Path, help="run nothing: tables of these rows")
    parser.add_argument("--evaluations", default="100,500,2000", help="budgets (%(default)s)")
    parser.add_argument("--seconds", default="", help="budgets of CPU time, as in 0.1,1,10")
    parser.add_argument("--seeds", type=int, default=5, help="how many (%(default)s)")
    parser.add_argument("--agents", default="", help="names, comma-separated (all)")
    parser.add_argument("--devices", default=DEVICES, help="%(default)s")
    parser.add_argument("--repair", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--workers", type=int, default=1, help="processes (%(default)s)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.rows is None:
        options.rows = options.out / "floors.jsonl"
        run_jobs(list(plan_jobs(options)), options.rows, options.workers)
    write_tables(read_rows(options.rows), options.out)


def plan_jobs(options: argparse.Namespace) -> Iterator[Job]:
    """The runs that the options ask for."""
    evaluations = tuple(int(part) for part in options.evaluations.split(",") if part)
    seconds = tuple(float(part) for part in options.seconds.split(",") if part)
    repairs = {"no": [False], "yes": [True], "both": [False, True]}[options.repair]
    names = [name for name in options.agents.split(",") if name]
    placers = [placer for placer in PLACERS if not names or placer.name in names]
    models = find_models(options.data)
    models |= {name: () for name in options.generated.split(",") if name}
    cases = product(range(options.seeds), models, options.devices.split(","), repairs, placers)
    for seed, model, devices, repair, placer in cases:
        if not (repair and placer.name in UNCHANGED):
            budgets = evaluations, seconds, models[model]
            yield from split_by_budget(Job(placer, model, devices, seed, repair, *budgets))


def find_models(folders: Sequence[Path]) -> dict[str, tuple[Path, ...]]:
    """Name of each workload -> its file and the smallest one."""
    files: dict[str, Path] = {}
    for folder in folders:
        inputs = folder / "latency-inputs"
        inputs = inputs if inputs.exists() else folder
        files |= {str(path.relative_to(inputs).with_suffix("")): path
                  for path in sorted(inputs.rglob("*.json"))}  # fmt: skip
    smallest = min(files.values(), key=lambda one: one.stat().st_size, default=Path())
    return {name: (path, smallest) for name, path in files.items()}


def split_by_budget(job: Job) -> Iterator[Job]:
    """One run for each budget that shapes what the placer does."""
    if job.placer.kind == ANYTIME:
        yield job
        return
    for n in job.evaluations:
        yield replace(job, evaluations=(n,), cpu_seconds=())
    for limit_s in sorted(job.cpu_seconds):
        yield replace(job, evaluations=(), cpu_seconds=(limit_s,))


def run_jobs(jobs: Sequence[Job], path: Path, workers: int) -> None:
    """Run in processes what has no row yet, and append the rows."""
    with (
        lock_folder(path.parent),
        limit_threads(),
        ProcessPoolExecutor(
            workers, get_context("spawn"), initializer=exit_with_parent, initargs=(os.getpid(),)
        ) as pool,
    ):
        cut_torn_line(path)
        done = {row["key"] for row in read_rows(path)}
        running = [pool.submit(run_job, job) for job in jobs if job.key not in done]
        for future in track(as_completed(running), "runs", total=len(running)):
            append_row(path, future.result())


def run_job(job: Job) -> Row:
    """Run an agent until its budgets are reached; its row holds the curve of latencies, in ms."""
    warm_up(job.placer, job.files[-1:], job.devices, job.repair)
    planned = plan_evaluations(job)
    env = job.make_env()
    reference_ms, error = env.reference.latency_ms, ""
    meter = Meter(env.backend, job.evaluations, job.cpu_seconds)
    try:
        search(env, meter, job.placer.spec, job.seed, planned)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    cpu_s = meter.cpu_s
    meter.note_rest()
    about = describe_run(describe_env(env), job.placer.spec, job.seed, planned, meter)
    return (
        origin()
        | about
        | {
            "key": job.key,
            "arm": job.placer.spec.label,
            "kind": job.placer.kind,
            "model": job.model,
            "devices": job.devices,
            "seed": job.seed,
            "repair": job.repair,
            "evaluations": job.evaluations,
            "cpu_seconds": job.cpu_seconds,
            "curve": [(n, seconds, reference_ms / speedup) for n, seconds, speedup in meter.curve],
            "at": meter.at,
            "n_evaluations": meter.n,
            "best_known_ms": best_known_ms(env),
            "bound_ms": load_ms(env.problem, env.cost_table()),
            "cpu_s": cpu_s,
            "error": error or about["error"],
        }
    )


@cache
def warm_up(placer: Placer, small: tuple[Path, ...], devices: str, repair: bool) -> None:
    """Let a placer search a small problem of the same kind, so that its code is loaded."""
    env = Job(placer, "synthetic-layered-100", devices, 0, repair, files=small).make_env()
    with suppress(Exception):  # a run that fails says so in its row
        search(env, Meter(env.backend, (TRIAL,)), placer.spec, 0, TRIAL)


def plan_evaluations(job: Job) -> int:
    """The budget that a search is given; of a planned one in seconds, by its speed in a trial."""
    if job.placer.kind != PLANNED:
        return MAX_INTEGER
    if job.evaluations:
        return job.evaluations[0]
    env = job.make_env()
    meter = Meter(env.backend, (10 * TRIAL,))
    search(env, meter, job.placer.spec, job.seed, 10 * TRIAL)
    first_s = meter.curve[0][1] if meter.curve else 0.0
    speed = meter.n / max(meter.cpu_s - first_s, 1e-6)
    return max(int(speed * (job.cpu_seconds[0] - first_s)), 1)


if __name__ == "__main__":
    main()
