"""Shared by the benchmarks: options, rows that continue, and runs within budgets."""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
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

import placement_gym
from placement_gym.backends import Backend
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray, explain_removal, to_plain
from placement_gym.bench.known import find_best_known, identify
from placement_gym.bench.run import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached
from placement_gym.bench.run.provenance import origin
from placement_gym.bench.run.rows import append_line, cut_torn_line
from placement_gym.envs import DevicePlacementEnv, placement_env
from placement_gym.hardware import make_devices
from placement_gym.problem import Problem, assignment_hash
from placement_gym.problem.costs import PRESETS
from placement_gym.problem.costs.workloads import Workload

Row = dict[str, Any]
BY_RANK = {"preset": "list", "order": "priority"}
"""The schedule under which workloads with little memory are compared."""
GPUS = ["CPU", *({"name": f"GPU.{i}", "weight_share": 0.4} for i in range(2))]
"""Devices of generated graphs: a host, and two that hold 40 % of the weights each."""
BERT_12 = "latency-inputs/OperatorGraphs/bert_l-12_inference.json"
"""The largest input of dnn-partitioning on which learned agents are timed, of 783 nodes."""
SIMULATED = "DevicePlacementSim-v0"
LARGE = 10_000
"""Units of a problem above which a row has the hash of its placement alone."""
REMOVED_OPTIONS = {"begin_with", "runs"}
"""Options of agents, or of their policies, that version 0.4 removed."""
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of a benchmark, as it is written."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def read_rows(path: Path) -> list[Row]:
    """The rows of a file whose arms can still be run; none if there is no file.

    The file may be compressed. Rows of studies name their arm in another column.
    """
    if not path.exists():
        return []
    with OPENERS.get(path.suffix, open)(path, "rt") as file:
        rows = filter(can_run, map(json.loads, file))
        return [{"arm": row.get("label") or row.get("agent")} | row for row in rows]


def can_run(row: Row) -> bool:
    """Return whether neither the agent of a row nor an option of it was removed."""
    options = row.get("kwargs") or {}
    removed = REMOVED_OPTIONS & {*options, *(options.get("policy") or {})}
    return not removed and not explain_removal("agent", row.get("agent"))


@cache
def load_rows(path: Path) -> tuple[Row, ...]:
    """The rows of a file that is complete, which is read once."""
    return tuple(read_rows(path))


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
        run: Returns the other fields of the row, from those of the job: what ``describe_run``
            does, and its own; version, commit and processor are added.

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


def describe_run(
    env: Row, agent: AgentSpec, seed: int, budget: int | str, meter: BudgetedBackend
) -> Row:
    """The columns from which a run can be made again and replayed; see ``row_checks.COLUMNS``.

    Args:
        env: Where it ran, see ``describe_env``.
        agent: Which agent ran, with its options.
        seed: Of the agent.
        budget: Evaluations, or a time as in ``"5 s"``.
        meter: The backend that counted its evaluations.
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
    """Id and arguments of an environment; None for one whose costs were changed after that."""
    if env.spec is None:
        return {"env": None, "env_kwargs": None}
    return describe_kwargs(env.spec.kwargs)


def describe_kwargs(kwargs: Mapping[str, Any]) -> Row:
    """The same of a simulated environment that was not, or could not be, made."""
    kwargs = to_plain(kwargs)
    path = Path(kwargs["model"])
    if path.suffix:  # a workload, as studies name it
        kwargs["model"] = "/".join(("${DNN_PARTITIONING}", *path.parts[-3:]))
    return {"env": SIMULATED, "env_kwargs": kwargs}


def describe_placement(problem: Problem, assignment: IntArray) -> dict[str, str] | str:
    """The device of each unit, as in rows of studies; its hash where it is large or joint."""
    units, names = problem.units.names, problem.device_names
    if len(assignment) != len(units) or len(units) > LARGE:
        return assignment_hash(assignment)
    return {unit: names[device] for unit, device in zip(units, assignment, strict=True)}


def run_apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in a process of its own; returns its result."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def make_env(model: str | Path, **kwargs: Any) -> DevicePlacementEnv:
    """The simulated environment of a model; see ``DevicePlacementSim-v0``."""
    return placement_env(gym.make(SIMULATED, model=str(model), **kwargs))


def load_pipeline(
    path: Path, hosts: int, accelerators: int, objective: str = "throughput"
) -> tuple[SimulatedBackend, Row]:
    """A published input on so many devices with the published memory, and what rows say of it.

    Its objective is their largest load, or the latency of contiguous splits. Environments have at
    most 16 devices, and inputs more.
    """
    workload, schedule = Workload.load(path), f"tarnawski-{objective}"
    devices = make_devices(hosts, accelerators, memory_bytes=workload.accelerator_bytes)
    costs, units = workload.costs(devices), workload.units()
    problem = Problem(units, devices, costs.units_supported(units), costs.memory_bytes)
    listed = [device.to_json() for device in devices]
    about = {"model": path, "devices": listed, "objective": objective, "schedule": schedule}
    return SimulatedBackend(problem, costs, PRESETS[schedule]), describe_kwargs(about)


def best_known_ms(env: DevicePlacementEnv) -> float | None:
    """The best known latency of the environment's problem, if there is one."""
    value = find_best_known(identify(env.backend))
    return None if value is None else value.latency_ms


def search(
    env: DevicePlacementEnv, meter: Meter, spec: AgentSpec, seed: int, evaluations: int
) -> Any:
    """Let an agent search until it ends or the meter stops it; returns it.

    None stands for one that was stopped while it was made. The last evaluation of a learner belongs
    to its greedy placement, as in studies; an agent that evaluates nothing itself has its one
    placement evaluated.
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
    """Stops when all budgets are reached; keeps the curve, and of the placements the best one.

    Args:
        inner: The backend that evaluates.
        evaluations: Budgets.
        cpu_seconds: Budgets of this process's time from now on.
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

    def record(self, assignment: Any, speedup: float, error: str) -> None:
        """Count an evaluation; see ``BudgetedBackend.record``.

        Raises:
            BudgetReached: All budgets are.
        """
        passed_s = self.cpu_s
        self.n += 1
        if not error and speedup > (self.curve[-1][2] if self.curve else 0.0):
            self.curve.append((self.n, round(passed_s, 5), speedup))
            self.fastest = [assignment.copy()]
        if self.n >= self.limit and passed_s >= self.limit_s:
            raise BudgetReached(f"{self.n} evaluations in {passed_s:.1f} s")

    def best(self, n: int) -> list[IntArray]:
        """The best placement, if there is one, whatever ``n`` is."""
        return self.fastest
