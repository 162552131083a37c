"""Measurements that correct the costs of the sequential placer's model."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from slow_decoder import drawn_problem

from agents.sequential import Network, Refined
from agents.sequential.agent import make
from agents.sequential.board import ADDED, choose_goal
from agents.sequential.board import LOAD as GREATEST
from agents.sequential.corrected import Corrected
from agents.sequential.correction import Correction, Doubt
from agents.sequential.schedule import LOAD, SERIAL, Schedule, choose_kind, estimate_all
from placement_gym.arrays import FloatArray, IntArray
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.backends.profiled import ProfiledBackend
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.costs.semantics import Semantics
from placement_gym.env import DevicePlacementEnv
from placement_gym.errors import UserError

IN_TURN = Semantics("serial")
SEEDS = range(4)


def make_env(seed: int, off: FloatArray | float = 1.0) -> DevicePlacementEnv:
    """A drawn problem; its profile's times on each device are ``off`` times the true ones."""
    problem, costs = drawn_problem(seed)
    backend = SimulatedBackend(problem, costs, IN_TURN)
    factors = np.broadcast_to(off, len(problem.devices))
    return DevicePlacementEnv(ProfiledBackend(backend, costs.scaled(factors)), observe_graph=False)


def make_schedule(env: DevicePlacementEnv) -> Schedule:
    return Schedule.of(env.problem, env.cost_table(), env.backend)


def make_correction(env: DevicePlacementEnv, doubt: Doubt | None = None) -> Correction:
    return Correction(env.problem, make_schedule(env), np.random.default_rng(0), doubt)


def draw_feasible(env: DevicePlacementEnv, k: int, seed: int = 0) -> tuple[IntArray, FloatArray]:
    """At most k feasible placements and their speed-ups."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(env.problem.devices), (4 * k, env.problem.n_units))
    drawn = env.problem.where_supported(drawn)
    speedups, feasible = env.backend.evaluate_batch(drawn)
    return drawn[feasible][:k], speedups[feasible][:k]


@pytest.mark.parametrize("seed", SEEDS)
def test_terms_add_up_to_what_the_model_says(seed: int) -> None:
    env = make_env(seed)
    correction = make_correction(env)
    n_units, n_devices = correction.unit_ms.shape
    for placement in draw_feasible(env, 5)[0]:
        by_unit, by_device, by_link = np.split(
            correction.split(placement), np.cumsum([n_units * n_devices, n_devices])
        )
        expected = estimate_all(correction.schedule, placement[None])[0]
        assert by_unit.sum() + by_link.sum() == pytest.approx(expected)
        assert by_device.sum() == pytest.approx(by_unit.sum())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_right_profile_stays_nearly_as_it_is(seed: int) -> None:
    env = make_env(seed)
    correction = make_correction(env)
    placements, speedups = draw_feasible(env, 30)
    correction.add(placements, speedups)
    drawn = estimate_all(correction.draw(), placements)
    expected = estimate_all(correction.schedule, placements)
    np.testing.assert_allclose(drawn, expected, rtol=0.15)


def test_measurements_tell_that_a_device_is_slower_than_its_profile() -> None:
    off = np.array([1.0, 0.5, 1.0])
    env = make_env(1, off[: len(make_env(1).problem.devices)])
    correction = make_correction(env)
    placements, speedups = draw_feasible(env, 60)
    others, their_speedups = draw_feasible(env, 20, seed=1)
    true_ms = correction.reference_ms / their_speedups

    def miss(schedule: Schedule) -> float:
        return float(np.abs(np.log(estimate_all(schedule, others) / true_ms)).mean())

    correction.add(placements, speedups)
    assert miss(correction.draw()) < 0.5 * miss(correction.schedule)


def test_without_measurements_it_draws_from_what_is_believed_at_first() -> None:
    env = make_env(0)
    sure = make_correction(env, Doubt(1e-9, 1e-9, 1e-9)).draw()
    np.testing.assert_allclose(sure.ms, make_schedule(env).ms)
    np.testing.assert_allclose(sure.transfer_ms, make_schedule(env).transfer_ms)
    assert not np.allclose(make_correction(env).draw().ms, sure.ms)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_search_keeps_limits_and_evaluates_as_often_as_it_says(seed: int) -> None:
    env = make_env(seed, 1.3)
    agent = Corrected(env, 0, Network())
    agent.learn(24)
    assert agent.evaluations <= 24
    assert len(agent.correction.latencies_ms) == agent.evaluations
    measured = env.backend.evaluate(agent.assignment)
    assert measured.feasible
    assert measured.speedup == pytest.approx(agent.best_speedup)


def test_seeds_decide_everything() -> None:
    first, again, other = (Corrected(make_env(2, 0.7), s, Network()).learn(20) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.parents, again.parents)
    assert first.rng.random() != other.rng.random()


def test_where_devices_overlap_costs_cannot_be_corrected() -> None:
    problem, costs = drawn_problem(0)
    overlapping = SimulatedBackend(problem, costs, Semantics("list"))
    schedule = Schedule.of(problem, costs, overlapping)
    with pytest.raises(UserError, match="leave out correct=True"):
        Correction(problem, schedule, np.random.default_rng(0))


def test_simulated_environments_are_not_corrected_unless_asked() -> None:
    env = gym.make("DevicePlacementSim-v0", model="tiny", schedule="serial")
    assert type(make(env, 0)) is Refined
    assert type(make(env, 0, correct=True)) is Corrected


@pytest.mark.parametrize(("objective", "kind"), [("latency", SERIAL), ("throughput", LOAD)])
def test_the_model_of_what_is_measured_follows_the_objective(objective: str, kind: int) -> None:
    backend = ProfiledBackend(make_env(0).backend, make_env(0).cost_table())
    del backend.inner
    backend.protocol = TimingProtocol(objective=objective)  # type: ignore[attr-defined]
    assert choose_kind(backend) == (kind, False)
    assert choose_goal(backend) == {SERIAL: ADDED, LOAD: GREATEST}[kind]
