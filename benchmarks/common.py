"""Shared by the benchmarks: options, rows that continue, runs within budgets, tables, intervals."""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from scipy import stats

import placement_gym
from placement_gym.backends.protocol import Backend
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import FloatArray
from placement_gym.bench.known.best_known import find_best_known
from placement_gym.bench.known.identity import identify
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached
from placement_gym.bench.run.provenance import origin
from placement_gym.bench.run.rows import append_line, cut_torn_line
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.placement_env import placement_env
from placement_gym.hardware.device_requests import make_devices
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.problem.costs.workloads import Workload
from placement_gym.problem.problem import Problem

Row = dict[str, Any]
ProblemName = tuple[str, str]
"""Model and devices."""
Describe = Callable[[list[Row]], object]
"""Text or number for the rows of a group."""
Scores = dict[tuple[str, str, int], float]
"""Score of each run by problem, two strings, and seed."""
N_RESAMPLES = 2000
BY_RANK = {"preset": "list", "order": "priority"}
"""The schedule under which workloads with little memory are compared."""
GPUS = ["CPU", *({"name": f"GPU.{i}", "weight_share": 0.4} for i in range(2))]
"""Devices of generated graphs: a host, and two that hold 40 % of the weights each."""
BERT_12 = "latency-inputs/OperatorGraphs/bert_l-12_inference.json"
"""The largest input of dnn-partitioning on which learned agents are timed, of 783 nodes."""
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of a benchmark, as it is written."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def print_table(lines: Iterable[Row], title: str = "") -> None:
    """Print a table in Markdown, whose columns are the keys of the first line."""
    table = Table(title=title, box=MARKDOWN)
    for number, line in enumerate(lines):
        for name in () if number else line:
            table.add_column(name)
        table.add_row(*map(str, line.values()))
    Console(width=400).print(table)


def print_groups(
    rows: Iterable[Row], keys: Sequence[str], columns: Mapping[str, Describe], title: str = ""
) -> None:
    """Print the lines of ``describe_groups``."""
    print_table(describe_groups(rows, keys, columns), title)


def describe_groups(
    rows: Iterable[Row], keys: Sequence[str], columns: Mapping[str, Describe]
) -> list[Row]:
    """A line for each group of rows with equal values of some keys: these, and columns."""
    return [
        dict(zip(keys, values, strict=True))
        | {name: describe(mine) for name, describe in columns.items()}
        for values, mine in group_by(rows, *keys).items()
    ]


def group_by(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by their values of some keys, in the order in which these are first met."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def columns_of(rows: Iterable[Row], key: str, describe: Describe) -> dict[str, Describe]:
    """A column for each value of a key: what ``describe`` says of the rows that have it, if any."""

    def describe_those(value: object, group: list[Row]) -> object:
        mine = [row for row in group if row[key] == value]
        return describe(mine) if mine else ""

    return {str(value): partial(describe_those, value) for (value,) in group_by(rows, key)}


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, which may be compressed; none if there is no file."""
    if not path.exists():
        return []
    with OPENERS.get(path.suffix, open)(path, "rt") as file:
        return [json.loads(line) for line in file]


def append_row(path: Path, row: Row) -> None:
    """Add a row to a file that is not compressed."""
    append_line(path, json.dumps(row).encode())


def combine(**choices: Iterable[Any]) -> Iterator[Row]:
    """Fields of every combination of choices; those of the last one change first."""
    for values in product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


def run_missing(path: Path, jobs: Iterable[Row], run: Callable[..., Row]) -> list[Row]:
    """Run the jobs that have no row yet.

    Args:
        path: The file of rows.
        jobs: Fields that tell a run from others.
        run: Returns the other fields of the row, from those of the job; version, commit and
            processor are added.

    Returns:
        All rows of the file.
    """
    if path.exists() and path.suffix not in OPENERS:
        cut_torn_line(path)
    rows = read_rows(path)
    for job in jobs:
        if not any(job.items() <= row.items() for row in rows):
            rows.append(origin() | job | run(**job))
            append_row(path, rows[-1])
    return rows


def run_apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in a process of its own; returns its result."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def make_env(model: str | Path, **kwargs: Any) -> DevicePlacementEnv:
    """The simulated environment of a model; see ``DevicePlacementSim-v0``."""
    return placement_env(gym.make("DevicePlacementSim-v0", model=str(model), **kwargs))


def load_pipeline(path: Path, hosts: int, accelerators: int) -> SimulatedBackend:
    """A published input on so many devices with the published memory, and their largest load."""
    workload = Workload.load(path)
    devices = make_devices(hosts, accelerators, memory_bytes=workload.accelerator_bytes)
    costs, units = workload.costs(devices), workload.units()
    problem = Problem(units, devices, costs.units_supported(units), costs.memory_bytes)
    return SimulatedBackend(problem, costs, PRESETS["tarnawski-throughput"])


def best_known_ms(env: DevicePlacementEnv) -> float | None:
    """The best known latency of the environment's problem, if there is one."""
    value = find_best_known(identify(env.backend))
    return None if value is None else value.latency_ms


def search(
    env: DevicePlacementEnv, meter: BudgetedBackend, spec: AgentSpec, seed: int, evaluations: int
) -> Any:
    """Let an agent search until it ends or the meter stops it; returns it.

    None stands for one that was stopped while it was made. A solver that evaluates nothing itself
    has its one placement evaluated.
    """
    agent: Any = None
    with env.with_backend(meter), suppress(BudgetReached):
        agent = spec.make(env, seed)
        if hasattr(agent, "learn"):
            env.reset(seed=seed)
            agent.learn(evaluations)
        if not meter.evaluations:
            placement_gym.play_episode(env, agent, seed=seed)
    return agent


class Meter(BudgetedBackend):
    """Stops when all budgets are reached; keeps the curve, but not the placements.

    Args:
        inner: The backend that evaluates.
        evaluations: Budgets.
        cpu_seconds: Budgets of this process's time from now on.
    """

    def __init__(
        self, inner: Backend, evaluations: Sequence[int] = (), cpu_seconds: Sequence[float] = ()
    ) -> None:
        super().__init__(inner, sys.maxsize)
        self.waiting: dict[str, list[Any]] = {
            "evaluations": sorted(evaluations),
            "cpu_seconds": sorted(cpu_seconds),
        }
        self.n = self.infeasible = 0
        self.at: dict[str, tuple[int, int]] = {}

    @property
    def evaluations(self) -> int:
        return self.n

    @property
    def n_infeasible(self) -> int:
        return self.infeasible

    def record(self, assignment: Any, speedup: float, error: str) -> None:
        """Count an evaluation; see ``BudgetedBackend.record``.

        Raises:
            BudgetReached: All budgets are.
        """
        passed_s = self.cpu_s
        self.note("cpu_seconds", passed_s)
        self.n += 1
        self.infeasible += bool(error)
        if not error and speedup > (self.curve[-1][2] if self.curve else 0.0):
            self.curve.append((self.n, round(passed_s, 5), speedup))
        self.note("evaluations", self.n)
        if not any(self.waiting.values()):
            raise BudgetReached(f"{self.n} evaluations in {passed_s:.1f} s")

    def note(self, unit: str, reached: float) -> None:
        """Keep evaluations, and infeasible ones, at the budgets that are reached."""
        waiting = self.waiting[unit]
        while waiting and reached >= waiting[0]:
            self.at[f"{waiting.pop(0)} {unit}"] = (self.n, self.infeasible)

    def note_rest(self) -> None:
        """The same at budgets that an agent does not use up."""
        for unit in self.waiting:
            self.note(unit, np.inf)


def describe_mean(values: Sequence[float]) -> str:
    """Mean and half-width of its 95 % interval, by Student's t."""
    n = len(values)
    if n < 2:
        return f"{np.mean(values):.3f}" if n else ""
    half = stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)
    return f"{np.mean(values):.3f} +- {half:.3f}"


def compare_scores(
    scores: Scores, others: Scores, of: str, problems: Sequence[ProblemName]
) -> dict[str, str]:
    """Cells of mean score, and of differences in points to runs of the same problem and seed.

    Of the two intervals of 95 % the first is of these runs; for the second problems are drawn, too,
    and then their runs.
    """
    cells = {"score": f"{average(scores, problems):.3f}", f"above {of} (95 %)": "-"}
    cells["problems drawn, too"] = "-"
    shared = sorted(set(scores) & set(others))
    if len(shared) > 1 and scores is not others:
        points = 100.0 * np.array([scores[key] - others[key] for key in shared])
        parts = [points[[k[:2] == one for k in shared]] for one in sorted({k[:2] for k in shared})]
        low, high = find_interval(points)
        least, most = find_interval_over_problems(parts)
        cells[f"above {of} (95 %)"] = f"{points.mean():+.1f} ({low:+.1f}, {high:+.1f})"
        cells["problems drawn, too"] = f"({least:+.1f}, {most:+.1f})"
    return cells


def average(scores: Scores, problems: Sequence[ProblemName]) -> float:
    """Mean over problems of the means over their seeds."""
    each = [[value for key, value in scores.items() if key[:2] == one] for one in problems]
    return float(np.mean([np.mean(part) for part in each]))


def find_interval(values: FloatArray) -> tuple[float, float]:
    """A 95 % interval of the mean, by bootstrap."""
    if np.ptp(values) == 0.0:
        return float(values[0]), float(values[0])
    drawn = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=N_RESAMPLES, rng=0)
    return float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)


def find_interval_over_problems(parts: list[FloatArray]) -> tuple[float, float]:
    """A 95 % interval of the mean over problems, by bootstrap of problems and of their runs."""
    rng = np.random.default_rng(0)
    means = [
        np.mean([rng.choice(parts[i], len(parts[i])).mean() for i in chosen])
        for chosen in rng.integers(len(parts), size=(N_RESAMPLES, len(parts)))
    ]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
