"""Shared by the benchmarks: commands, files of rows, and runs within budgets."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from rich.progress import track

import placement_gym
from placement_gym.backends import Backend
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray, explain_removal, to_plain
from placement_gym.bench import find_best_known, identify
from placement_gym.bench.run import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached
from placement_gym.bench.run.row_schema import origin
from placement_gym.bench.run.rows import append_line, cut_torn_line
from placement_gym.bench.study import read_columns
from placement_gym.envs import DevicePlacementEnv, placement_env
from placement_gym.hardware import make_devices
from placement_gym.problem import Problem, assignment_hash
from placement_gym.problem.costs import PRESETS
from placement_gym.problem.costs.workloads import Workload

Row = dict[str, Any]
Run = Callable[..., Row | list[Row]]
"""Makes the row or rows of a job from its fields."""
Part = tuple[Callable[[], Iterable[Row]], Run]
"""Lists the jobs of a part of a benchmark, and runs one."""
ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
PARTITIONING = ROOT / "tests" / "data" / "dnn-partitioning"
"""Inputs published with "Efficient Algorithms for Device Placement"."""
BY_RANK = {"preset": "list", "order": "priority"}
"""The schedule of workloads with little memory."""
SIMULATED = "DevicePlacementSim-v0"
LARGE = 10_000
"""Largest number of units whose placement a row has; of others it has the hash."""
REMOVED_OPTIONS = {"begin_with", "runs"}
"""Options of agents, or of their policies, that version 0.4 removed."""


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of a benchmark."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def run_benchmark(doc: str | None, parts: Mapping[str, Part]) -> None:
    """The command of a benchmark: run the jobs that a file of rows lacks."""
    parser = make_parser(doc)
    if len(parts) > 1:
        parser.add_argument("part", choices=parts)
    parser.add_argument("--rows", type=Path, required=True, help="file of rows, added to")
    parser.add_argument("--only", nargs="+", default=[], metavar="FIELD=VALUE",
                        help="jobs with these values alone, as in arm=search seed=0")  # fmt: skip
    options = parser.parse_args()
    torch.set_num_threads(1)
    list_jobs, run = parts[getattr(options, "part", next(iter(parts)))]
    wanted = dict(one.split("=", 1) for one in options.only)
    jobs = [
        job
        for job in list_jobs()
        if all(str(job.get(name)) == value for name, value in wanted.items())
    ]
    run_missing(options.rows, track(jobs, "runs"), run)


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a file, if there is one, but for removed agents and options."""
    rows = filter(can_run, read_columns(path) if path.exists() else ())
    return [{"arm": row.get("label") or row.get("agent")} | row for row in rows]


def can_run(row: Row) -> bool:
    options = row.get("kwargs") or {}
    removed = REMOVED_OPTIONS & {*options, *(options.get("policy") or {})}
    return not removed and not explain_removal("agent", row.get("agent"))


def load_rows(*files: str) -> list[Row]:
    """The rows of files of ``docs/results``, each file read once."""
    return [row for file in files for row in load_file(file)]


@cache
def load_file(file: str) -> list[Row]:
    return read_rows(RESULTS / file)


def combine(**choices: Iterable[Any]) -> Iterator[Row]:
    """Fields of every combination of choices; those of the last one change first."""
    for values in product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


def run_missing(path: Path, jobs: Iterable[Row], run: Run) -> list[Row]:
    """Run the jobs that have no row yet, and add their rows; return all rows of the file."""
    if path.suffix not in (".gz", ".xz"):
        cut_torn_line(path)
    rows = read_rows(path)
    for job in jobs:
        if not any(job.items() <= row.items() for row in rows):
            made = run(**job)
            for row in made if isinstance(made, list) else [made]:
                rows.append(origin() | job | row)
                append_line(path, json.dumps(rows[-1]).encode())
    return rows


def describe_run(
    env: Row, agent: AgentSpec, seed: int, budget: int | str, meter: BudgetedBackend
) -> Row:
    """The columns from which a run can be made again and replayed; see ``row_checks.COLUMNS``.

    ``env`` is from ``describe_env``; the budget is evaluations, or a time such as ``"5 s"``.
    """
    found = meter.best(1)
    return {
        "agent": agent.name,
        "kwargs": to_plain(dict(agent.kwargs)),
        **env,
        "seed": seed,
        "budget": budget,
        "evaluations": meter.evaluations,
        "curve": meter.curve,
        "latency_ms": meter.inner.evaluate(found[0]).latency_ms if found else None,
        "placement": describe_placement(meter.problem, found[0]) if found else None,
        "error": "" if found else "no placement that was evaluated fits",
        "cpu_s": round(meter.cpu_s, 3),
    }


def describe_env(env: DevicePlacementEnv) -> Row:
    """Id and arguments of an environment; None if its costs were changed."""
    if env.spec is None:
        return {"env": None, "env_kwargs": None}
    return describe_kwargs(env.spec.kwargs)


def describe_kwargs(kwargs: Mapping[str, Any]) -> Row:
    """Id and arguments of a simulated environment."""
    kwargs = to_plain(kwargs)
    path = Path(kwargs["model"])
    if path.suffix:  # a workload, as studies name it
        kwargs["model"] = "/".join(("${DNN_PARTITIONING}", *path.parts[-3:]))
    return {"env": SIMULATED, "env_kwargs": kwargs}


def describe_placement(problem: Problem, assignment: IntArray) -> dict[str, str] | str:
    """The device of each unit; the hash of a large or joint placement."""
    units, names = problem.units.names, problem.device_names
    if len(assignment) != len(units) or len(units) > LARGE:
        return assignment_hash(assignment)
    return {unit: names[device] for unit, device in zip(units, assignment, strict=True)}


def run_apart(function: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def run_agent(env: DevicePlacementEnv, spec: AgentSpec, seed: int, budget: int) -> Row:
    """Run an agent within a number of evaluations, and return the columns of its row."""
    meter = Meter(env.backend, [budget])
    search(env, meter, spec, seed, budget)
    return describe_run(describe_env(env), spec, seed, budget, meter)


def find_workloads() -> dict[str, Path]:
    """Published inputs for latency, and profiles of pipedream, by name."""
    if "PIPEDREAM" not in os.environ:
        sys.exit("set PIPEDREAM to a folder with the converted profiles of pipedream")
    folders = (PARTITIONING / "latency-inputs", Path(os.environ["PIPEDREAM"]))
    return {
        str(path.relative_to(folder).with_suffix("")): path
        for folder in folders
        for path in sorted(folder.rglob("*.json"))
    }


def make_env(model: str | Path, **kwargs: Any) -> DevicePlacementEnv:
    return placement_env(gym.make(SIMULATED, model=str(model), **kwargs))


def load_pipeline(path: Path, hosts: int, accelerators: int) -> tuple[SimulatedBackend, Row]:
    """A published input on devices with the published memory, and the columns of its rows.

    The objective is the largest load. No environment is made, as these have at most 16 devices.
    """
    workload, schedule = Workload.load(path), "tarnawski-throughput"
    devices = make_devices(hosts, accelerators, memory_bytes=workload.accelerator_bytes)
    costs, units = workload.costs(devices), workload.units()
    problem = Problem(units, devices, costs.units_supported(units), costs.memory_bytes)
    listed = [device.to_json() for device in devices]
    about = {"model": path, "devices": listed, "objective": "throughput", "schedule": schedule}
    return SimulatedBackend(problem, costs, PRESETS[schedule]), describe_kwargs(about)


def best_known_ms(env: DevicePlacementEnv) -> float | None:
    value = find_best_known(identify(env.backend))
    return None if value is None else value.latency_ms


def search(
    env: DevicePlacementEnv, meter: Meter, spec: AgentSpec, seed: int, evaluations: int
) -> Any:
    """Let an agent search until it ends or the meter stops it, and return it.

    None if it was stopped while it was made. As in studies, the last evaluation of a learner is for
    its greedy placement, and an agent that evaluates nothing has its one placement evaluated.
    """
    agent: Any = None
    with meter.count_evaluations(env), suppress(BudgetReached):
        agent = spec.make(env, seed)
        learns = hasattr(agent, "learn")
        kept = int(learns and evaluations > 1 and not getattr(agent, "predicts_best", False))
        if learns:
            env.reset(seed=seed)
            meter.limit -= kept
            with suppress(BudgetReached):
                agent.learn(evaluations - kept)
            meter.limit += kept
        if kept or not meter.evaluations:
            placement_gym.play_episode(env, agent, deterministic=True, seed=seed)
    return agent


class Meter(BudgetedBackend):
    """Stops when all budgets are reached, in evaluations and in CPU seconds of this process.

    It keeps the curve and the best placement.
    """

    def __init__(
        self, inner: Backend, evaluations: Sequence[int] = (), cpu_seconds: Sequence[float] = ()
    ) -> None:
        super().__init__(inner, sys.maxsize)
        self.limit, self.limit_s = max(evaluations, default=0), max(cpu_seconds, default=0.0)
        self.n = 0
        self.fastest: list[IntArray] = []

    @property
    def evaluations(self) -> int:
        return self.n

    def record(self, assignment: Any, speedup: float, error: str, disturbed: bool = False) -> None:
        """Count an evaluation; raise ``BudgetReached`` if all budgets are."""
        passed_s = self.cpu_s
        self.n += 1
        if not error and speedup > (self.curve[-1][2] if self.curve else 0.0):
            self.curve.append((self.n, round(passed_s, 5), speedup))
            self.fastest = [assignment.copy()]
        if self.n >= self.limit and passed_s >= self.limit_s:
            raise BudgetReached(f"{self.n} evaluations in {passed_s:.1f} s")

    def best(self, n: int) -> list[IntArray]:
        return self.fastest
