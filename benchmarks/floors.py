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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from classic import best_known_ms, make_workload_env
from floor_tables import write_tables

from placement_gym.backends.protocol import Backend
from placement_gym.bench.run.agents import UNCHANGED, AgentSpec, registered_agents
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached
from placement_gym.bench.run.rows import append_row, cut_torn_line, lock_folder
from placement_gym.bench.run.threads import limit_threads
from placement_gym.env import DevicePlacementEnv
from placement_gym.episode import play_episode
from placement_gym.processes.watchdog import exit_with_parent
from placement_gym.progress import progress_bar

DEVICES = ("1cpu+1acc@0.5", "1cpu+2acc@0.3", "1cpu+4acc@0.2")
BY_RANK = {"preset": "list", "order": "priority"}
SMALL = "LayerGraphs/bert24_inference"
WARM_UP = 50
"""Evaluations on the small problem before a run, so that compiled code is loaded."""
ANYTIME, PLANNED, TIMED = "anytime", "planned", "timed"
"""One run serves all budgets; the budget shapes the search; the agent takes ``time_limit_s``."""


@dataclass(frozen=True)
class Placer:
    """An agent of the table.

    Attributes:
        name: Its registered name.
        kwargs: Its options.
        kind: ``ANYTIME``, ``PLANNED`` or ``TIMED``.
        label: Its name in the table; empty takes name and options.
    """

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ANYTIME
    label: str = ""


PLACERS = (
    Placer("random"),
    Placer("random-blocks"),
    Placer("prefix", kind=PLANNED),
    Placer("window", kind=PLANNED),
    Placer("hill-climb"),
    Placer("annealing", kind=PLANNED),
    Placer("annealing", {"start": "random"}, PLANNED),
    Placer("cross-entropy"),
    Placer("genetic"),
    Placer("fill-in-order"),
    Placer("heft"),
    Placer("m-etf"),
    Placer("milp", kind=TIMED),
    Placer("list-sampling", {"changes": 0.0}, label="list-sampling, samples alone"),
    Placer("list-sampling"),
    Placer("multilevel"),
    Placer("neighbourhood"),
    Placer("path-load", kind=TIMED),
    Placer("beam", kind=TIMED),
)


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        data: Folder of the inputs.
        placer: Who places.
        model: Workload, as in ``"LayerGraphs/bert24_inference"``.
        devices: Counts and memory share.
        seed: Of the agent.
        repair: Whether the environment repairs placements.
        evaluations: Budgets; the run goes on until all are reached.
        seconds: Budgets likewise.
    """

    data: str
    placer: Placer
    model: str
    devices: str
    seed: int
    repair: bool
    evaluations: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()

    @property
    def spec(self) -> AgentSpec:
        """The agent, with the time limit if it takes one."""
        limited = self.placer.kind == TIMED and self.seconds
        limit = {"time_limit_s": self.seconds[0]} if limited else {}
        return AgentSpec(self.placer.name, {**self.placer.kwargs, **limit})

    @property
    def label(self) -> str:
        """The agent's name in the table, the same for every budget."""
        placer = self.placer
        return placer.label or AgentSpec(placer.name, placer.kwargs).label

    @property
    def key(self) -> str:
        """What tells it apart from other runs, wherever the inputs are."""
        return repr(replace(self, data="", placer=replace(self.placer, kind="", label="")))

    def make_env(self) -> DevicePlacementEnv:
        path = Path(self.data) / "latency-inputs" / f"{self.model}.json"
        repair = {"repair": True} if self.repair else {}
        return make_workload_env(
            path,
            devices=self.devices,
            schedule=BY_RANK,
            granularity="op",
            observe_graph=False,
            **repair,
        )


class Meter(BudgetedBackend):
    """Keeps the curve and what was reached at each budget, but not the placements.

    Args:
        inner: The backend that evaluates.
        evaluations: Budgets; ``BudgetReached`` is raised when all budgets are reached.
        seconds: Budgets likewise.
    """

    def __init__(
        self, inner: Backend, evaluations: Sequence[int], seconds: Sequence[float]
    ) -> None:
        super().__init__(inner, sys.maxsize)
        self.waiting = [sorted(evaluations), sorted(seconds)]
        self.n = self.infeasible = 0
        self.at: dict[str, tuple[int, int]] = {}
        self.started = perf_counter()

    @property
    def evaluations(self) -> int:
        return self.n

    def record(self, assignment: Any, speedup: float, error: str) -> None:
        """Count an evaluation; see ``BudgetedBackend.record``."""
        passed_s = perf_counter() - self.started
        self.note("seconds", self.waiting[1], passed_s)
        self.n += 1
        self.infeasible += bool(error)
        if not error and speedup > (self.curve[-1][2] if self.curve else 0.0):
            self.curve.append((self.n, round(passed_s, 4), speedup))
        self.note("evaluations", self.waiting[0], self.n)
        if not any(self.waiting):
            raise BudgetReached(f"{self.n} evaluations in {passed_s:.1f} s")

    def note(self, unit: str, waiting: list[Any], reached: float) -> None:
        """Keep evaluations, and infeasible ones, at the budgets that are reached."""
        while waiting and reached >= waiting[0]:
            self.at[f"{waiting.pop(0)} {unit}"] = (self.n, self.infeasible)

    def note_rest(self) -> None:
        """The same at budgets that an agent does not use up."""
        self.note("evaluations", self.waiting[0], sys.maxsize)
        self.note("seconds", self.waiting[1], sys.maxsize)


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
    cut_torn_line(path)
    done = {row["key"] for row in load_lines(path)}
    missing = [job for job in jobs if job.key not in done]
    with (
        lock_folder(out),
        progress_bar(len(jobs), "runs", quiet=False) as progress,
        limit_threads(),
        ProcessPoolExecutor(
            workers, get_context("spawn"), initializer=exit_with_parent, initargs=(os.getpid(),)
        ) as pool,
    ):
        bar = progress.tasks[0].id
        progress.update(bar, completed=len(jobs) - len(missing))
        running = {pool.submit(run_job, job): job for job in missing}
        for future in as_completed(running):
            append_row(path, future.result())
            progress.update(bar, advance=1, description=running[future].label)
    keys = {job.key for job in jobs}
    return [row for row in load_lines(path) if row["key"] in keys]


def load_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, if there is one."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_job(job: Job) -> dict[str, Any]:
    """Run an agent until its budgets are reached; its row holds the curve of latencies."""
    warm_up(job.placer.name, job.placer.kind == TIMED, job.data)
    planned = plan_evaluations(job)
    env = job.make_env()
    reference_ms = env.reference.latency_ms
    meter = Meter(env.backend, job.evaluations, job.seconds)
    error = ""
    try:
        search(env, meter, job.spec, job.seed, planned)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    wall_s = meter.wall_s
    meter.note_rest()
    return {
        "key": job.key,
        "agent": job.label,
        "kind": job.placer.kind,
        **{key: value for key, value in asdict(job).items() if key not in ("placer", "data")},
        "curve": [(n, seconds, reference_ms / speedup) for n, seconds, speedup in meter.curve],
        "at": meter.at,
        "n_evaluations": meter.n,
        "best_known_ms": best_known_ms(env),
        "wall_s": wall_s,
        "error": error,
    }


def search(
    env: DevicePlacementEnv, meter: Meter, spec: AgentSpec, seed: int, evaluations: int
) -> None:
    """Let an agent search, or evaluate its one placement if it evaluates none itself."""
    env.backend = meter
    try:
        with suppress(BudgetReached):
            policy = spec.make(env, seed)
            if hasattr(policy, "learn"):
                env.reset(seed=seed)
                policy.learn(evaluations)
            if not meter.n:
                play_episode(env, policy, deterministic=True, seed=seed)
    finally:
        env.backend = meter.inner


def plan_evaluations(job: Job) -> int:
    """The budget that a search is told; of a planned one in seconds, by its speed in a trial."""
    if job.placer.kind != PLANNED:
        return sys.maxsize
    if job.evaluations:
        return job.evaluations[0]
    env = job.make_env()
    meter = Meter(env.backend, (10 * WARM_UP,), ())
    search(env, meter, job.spec, job.seed, 10 * WARM_UP)
    return max(int(meter.n * job.seconds[0] / meter.wall_s), 1)


@cache
def warm_up(name: str, timed: bool, data: str) -> None:
    """Let an agent search a small problem once, so that its code is compiled and loaded."""
    kwargs = {"time_limit_s": 1.0} if timed else {}
    job = Job(data, Placer(name, kwargs), SMALL, DEVICES[1], 0, repair=False)
    env = job.make_env()
    with suppress(Exception):
        search(env, Meter(env.backend, (WARM_UP,), ()), job.spec, 0, WARM_UP)


if __name__ == "__main__":
    main()
