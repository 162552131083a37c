"""Runs of ``floors.py``: a placer on one workload until its budgets are reached."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

from classic import best_known_ms, make_workload_env

from placement_gym.backends.protocol import Backend
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached
from placement_gym.env import DevicePlacementEnv
from placement_gym.episode import play_episode

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
