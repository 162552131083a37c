# White-box tests of solvers.list_policy
"""Earliest finish and lookahead: equal to a slow reference, and known values on the stream."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from scipy.stats import gmean

from placement_gym.envs import SimulatedEnv, StreamEnv, StreamProblem
from placement_gym.graph.families import StreamProblems
from placement_gym.solvers import heft
from placement_gym.solvers.list_policy import earliest_finish, lookahead
from placement_gym.solvers.list_policy.list_problem import ListProblem

SEEDS = (700, 701, 715, 720, 741, 743, 752, 756)
"""The last six have other schedules at another price of memory, or without one."""
SMALL = [StreamProblem(StreamProblems(sizes=(20, 40))(seed), {}) for seed in SEEDS]


class Schedule:
    """A partial schedule, an operator at a time; transfers wait for those of the same sender."""

    def __init__(self, view: ListProblem) -> None:
        self.view = view
        n, n_devices = view.ms.shape
        self.finish, self.device = np.zeros(n), np.zeros(n, np.int64)
        self.free, self.sent = np.zeros(n_devices), np.zeros(n_devices)
        self.arrived: dict[tuple[int, int], float] = {}
        self.left, self.fits_all = view.limit.copy(), True

    def room(self, d: int) -> float:
        return float(min(self.left[self.view.member[:, d]], default=np.inf))

    def choices(self, i: int) -> list[int]:
        devices = range(len(self.free))
        fitting = [d for d in devices if self.view.size[i] <= self.room(d)]
        return fitting or [max(devices, key=self.room)]

    def finish_ms(self, i: int, d: int, commit: bool = False) -> float:
        view, begin = self.view, self.free[d]
        for r in range(view.first[i], view.first[i + 1]):
            maker, tensor = int(view.maker[r]), int(view.tensor[r])
            here, there = self.device[maker], self.finish[maker]
            if here != d and (tensor, d) in self.arrived:
                there = self.arrived[tensor, d]
            elif here != d:
                contended = view.send[here, d] >= 0
                there = max(there, self.sent[here] if contended else 0.0)
                there += view.transfer_ms[tensor, here, d]
                if commit:
                    self.arrived[tensor, d] = self.sent[here] = there
            begin = max(begin, there)
        return float(begin + view.ms[i, d])

    def place(self, i: int, d: int) -> None:
        self.fits_all &= bool(self.view.size[i] <= self.room(d))
        self.left[self.view.member[:, d]] -= self.view.size[i]
        self.finish[i] = self.free[d] = self.finish_ms(i, d, commit=True)
        self.device[i] = d

    def choose(self, i: int, price: float = 0.0) -> int:
        def score(d: int) -> float:
            n_limits = int(self.view.member[:, d].sum())
            return self.finish_ms(i, d) + price * n_limits * float(self.view.size[i])

        return min(self.choices(i), key=score)

    def complete(self, begin: int, price: float = 0.0) -> Schedule:
        """The schedule whose other operators are placed one by one; a copy."""
        made = deepcopy(self, {id(self.view): self.view})
        for i in self.view.sequence[begin:].tolist():
            made.place(i, made.choose(i, price))
        return made

    @property
    def end_ms(self) -> float:
        return float(self.free.max()) if self.fits_all else np.inf


def look_ahead(view: ListProblem) -> np.ndarray:
    placed = Schedule(view)
    best = placed.complete(0)
    for at, i in enumerate(view.sequence.tolist()):
        for d in range(len(placed.free)):
            trial = placed.complete(len(view.sequence))
            trial.place(i, d)
            ends = [trial.complete(at + 1, price) for price in (0.0, 0.5 * view.gain_ms)]
            best = min([best, *ends], key=lambda schedule: schedule.end_ms)
        placed.place(i, int(best.device[i]))
    return best.device


@pytest.mark.parametrize("problem", SMALL, ids=lambda problem: problem.sampled.model)
def test_schedules_are_those_of_the_reference(problem: StreamProblem) -> None:
    view = ListProblem.from_problem(problem.problem, problem.simulator)
    terms = problem.problem, problem.simulator
    np.testing.assert_array_equal(earliest_finish(*terms), Schedule(view).complete(0).device)
    np.testing.assert_array_equal(lookahead(*terms), look_ahead(view))


def test_problems_of_the_reference_have_both_schedules_and_limits_that_bind() -> None:
    bound = [problem for problem in SMALL if problem.problem.limited and fills_a_device(problem)]
    assert {problem.simulator.semantics.schedule for problem in bound} == {"list", "event"}


def fills_a_device(problem: StreamProblem) -> bool:
    view = ListProblem.from_problem(problem.problem, problem.simulator)
    schedule = Schedule(view)
    for i in view.sequence.tolist():
        schedule.place(i, schedule.choose(i))
        if len(schedule.choices(i)) < len(schedule.free):
            return True
    return False


@pytest.mark.parametrize(
    "kwargs", [{"schedule": "list"}, {"schedule": "serial"}, {"objective": "throughput"}]
)
def test_lookahead_ends_no_later_than_earliest_finish(kwargs: dict[str, Any]) -> None:
    gpus = [{"name": f"GPU.{i}", "weight_share": 0.3} for i in range(2)]
    env = SimulatedEnv(model="resnet", devices=["CPU", *gpus], **kwargs)
    simulator = env.simulated.simulator
    places = [solve(env.problem, simulator) for solve in (earliest_finish, lookahead)]
    assert [env.problem.infeasibility(place) for place in places] == ["", ""]
    first_ms, ahead_ms = (simulator.latency_ms(place.astype(np.uint8)) for place in places)
    assert ahead_ms <= first_ms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solve", "first", "count", "expected"),
    [
        (earliest_finish, 10_000, 100, 1.1463),
        (earliest_finish, 10_000, 200, 1.2073),
        (earliest_finish, 777_000, 60, 1.1755),
        (lookahead, 777_000, 60, 1.4008),
    ],
)
def test_speed_ups_over_heft_are_the_published_ones(
    solve: Callable[..., np.ndarray], first: int, count: int, expected: float
) -> None:
    env, faster = StreamEnv(), []
    for problem in map(env.find_problem, range(first, first + count)):
        costs = problem.simulator.costs
        heft_ms, _ = problem.repair(heft(problem.problem, costs))
        found_ms, _ = problem.repair(solve(problem.problem, problem.simulator))
        faster.append(heft_ms / found_ms)
    assert gmean(faster) == pytest.approx(expected, abs=1e-4)
