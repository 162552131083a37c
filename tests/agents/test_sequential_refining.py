"""Refining under the decoder's model: the model, what is seen of moves, chains, and the search."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from by_hand import cost_table, made_graph
from published import DATA
from slow_decoder import drawn_problem

from agents.sequential import Network, Refined
from agents.sequential.agent import make
from agents.sequential.chains import Chains
from agents.sequential.imitation import LEAST_GAIN, compute_move_loss, join_logs
from agents.sequential.lessons import Lesson
from agents.sequential.outlook import (
    FEATURES,
    N_FEATURES,
    WIDTH,
    MoveScorer,
    describe_moves,
    look_around,
    make_outlook,
    no_scorer,
)
from agents.sequential.refining import make_log
from agents.sequential.schedule import QUEUED, SERIAL, Schedule, estimate, estimate_all, make_space
from placement_gym.arrays import IntArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.costs.semantics import Semantics
from placement_gym.devices import DeviceSpec
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.graph.units import group
from placement_gym.problem import Problem

RESNET = DATA / "latency-inputs/LayerGraphs/resnet50_inference.json"
LIST = Semantics("list", contention="none", order="priority")
EXACT = (LIST, Semantics("list", contention="none"), Semantics(), Semantics("load"))
SEEDS = range(8)


def drawn_env(
    seed: int, semantics: Semantics = LIST, grouping: bool = False, repair: bool = False
) -> DevicePlacementEnv:
    backend = SimulatedBackend(*drawn_problem(seed, grouping), semantics)
    return DevicePlacementEnv(backend, observe_graph=False, repair=repair)


def draw_placements(problem: Problem, seed: int, k: int = 6) -> IntArray:
    rng = np.random.default_rng(seed)
    return problem.where_supported(rng.integers(0, len(problem.devices), (k, problem.n_units)))


def make_schedule(env: DevicePlacementEnv) -> Schedule:
    return Schedule.of(env.problem, env.cost_table(), env.backend)


def make_chains(env: DevicePlacementEnv) -> Chains:
    return Chains(env, np.random.default_rng(0))


def prefer_by(feature: str, strength: float) -> MoveScorer:
    """A scorer that knows one feature."""
    weight = np.zeros((N_FEATURES, WIDTH), dtype=np.float32)
    weight[FEATURES.index(feature), 0] = strength
    out = np.eye(WIDTH, dtype=np.float32)[0]
    return MoveScorer(weight, np.zeros(WIDTH, dtype=np.float32), out, True)


@pytest.mark.parametrize("semantics", EXACT, ids=["by rank", "by number", "serial", "load"])
@pytest.mark.parametrize("grouping", [False, True])
def test_the_model_is_the_schedule_of_the_environment(semantics: Semantics, grouping: bool) -> None:
    for seed in SEEDS:
        env = drawn_env(seed, semantics, grouping)
        placements = draw_placements(env.problem, seed)
        assert isinstance(env.backend, SimulatedBackend)
        expected = env.backend.simulator.latencies_ms(placements.astype(np.uint8))
        np.testing.assert_allclose(estimate_all(make_schedule(env), placements), expected)


def test_transfers_that_leave_one_device_wait_for_each_other() -> None:
    # the source's two tensors of 2 ms leave one after another, in the order of their readers
    graph = made_graph(3, [(0, [1]), (0, [2])])
    costs = cost_table(graph, [[1.0] * 3] * 3, [2.0, 2.0])
    devices = tuple(DeviceSpec(f"device{i}") for i in range(3))
    problem = Problem(group(graph, "op"), devices, np.ones((3, 3), dtype=np.bool_))
    env = DevicePlacementEnv(SimulatedBackend(problem, costs, Semantics("event")))
    schedule, apart = make_schedule(env), np.array([[0, 1, 2]])
    assert schedule.kind == QUEUED
    assert estimate_all(schedule, apart)[0] == env.backend.evaluate(apart[0]).latency_ms == 6.0


def test_finish_and_tail_of_the_longest_path_add_up_to_the_latency() -> None:
    for seed in SEEDS:
        env = drawn_env(seed, grouping=True)
        schedule = make_schedule(env)
        space = make_space(schedule)
        outlook = make_outlook(len(schedule.unit), *env.problem.supported.shape)
        for placement in draw_placements(env.problem, seed):
            latency_ms = estimate(schedule, space, placement)
            look_around(schedule, space, outlook, placement)
            assert (space.finish + outlook.tail).max() == pytest.approx(latency_ms)


@pytest.mark.parametrize("semantics", EXACT, ids=["by rank", "by number", "serial", "load"])
def test_what_is_seen_of_moves_is_small_and_finite(semantics: Semantics) -> None:
    for seed in SEEDS:
        env = drawn_env(seed, semantics)
        chains = make_chains(env)
        chains.start(draw_placements(env.problem, seed))
        schedule, state = chains.schedule, chains.states[0]
        outlook = make_outlook(len(schedule.unit), *env.problem.supported.shape)
        preference = np.random.default_rng(seed).normal(size=env.problem.supported.shape)
        limits = env.problem.limits_bytes
        describe_moves(
            chains.level, schedule, make_space(schedule), outlook, state, limits, preference, 0.01
        )
        assert np.isfinite(outlook.seen).all()
        assert np.abs(outlook.seen).max() <= 1.0 + 1e-6


def test_the_serial_gain_of_a_move_is_what_is_seen() -> None:
    env = drawn_env(3, Semantics())
    chains = make_chains(env)
    placement = draw_placements(env.problem, 3)[:1]
    chains.follow(placement)
    schedule, state = chains.schedule, chains.states[0]
    outlook = make_outlook(len(schedule.unit), *env.problem.supported.shape)
    preference = np.zeros(env.problem.supported.shape)
    limits = env.problem.limits_bytes
    describe_moves(
        chains.level, schedule, make_space(schedule), outlook, state, limits, preference, 0.01
    )
    seen = outlook.seen[..., FEATURES.index("added times and transfers, beside the latency")]
    (before,) = estimate_all(schedule, placement)
    for unit, device in np.argwhere(chains.level.possible):
        moved = placement.copy()
        moved[0, unit] = device
        change = 30.0 * (estimate_all(schedule, moved)[0] / before - 1.0)
        assert seen[unit, device] == pytest.approx(change / (1.0 + abs(change)), abs=1e-5)


@pytest.mark.parametrize("semantics", EXACT, ids=["by rank", "by number", "serial", "load"])
def test_chains_stay_within_limits_and_know_what_they_reach(semantics: Semantics) -> None:
    for seed in SEEDS:
        env = drawn_env(seed, semantics)
        chains = make_chains(env)
        chains.start(draw_placements(env.problem, seed))
        started_ms = chains.best_ms
        preference = np.zeros(env.problem.supported.shape)
        ends = chains.propose(preference, no_scorer(), 1e-4, 100)
        if np.isfinite(started_ms):
            assert not any(env.problem.infeasibility(end) for end in ends)
        assert chains.best_ms <= started_ms
        assert chains.estimate(chains.best[None])[0] == pytest.approx(chains.best_ms)


def test_a_scorer_chooses_the_moves_that_it_promises() -> None:
    env = drawn_env(5)
    chains = make_chains(env)
    chains.start(draw_placements(env.problem, 5))
    preference = np.random.default_rng(0).normal(size=env.problem.supported.shape)
    feature, means = FEATURES.index("what the network prefers there to here"), []
    for scorer in (no_scorer(), prefer_by(FEATURES[feature], 20.0)):
        log = make_log(200)
        chains.propose(preference, scorer, 0.01, 50, log)
        means.append(log.seen[: log.filled[0], feature].mean())
    assert means[1] > means[0] + 0.2


def test_a_log_holds_what_became_of_moves() -> None:
    env = drawn_env(5, Semantics())
    chains = make_chains(env)
    chains.start(draw_placements(env.problem, 5))
    assert chains.schedule.kind == SERIAL
    log = make_log(150)
    chains.propose(np.zeros(env.problem.supported.shape), no_scorer(), 0.01, 50, log)
    assert 0 < log.filled[0] <= 150
    ratio = log.ratio[: log.filled[0]]
    assert (ratio < -LEAST_GAIN).any()
    assert (ratio > LEAST_GAIN).any()


def test_trained_on_moves_a_network_promises_those_that_paid() -> None:
    torch.manual_seed(0)
    network = Network(hidden=4)
    lesson = Lesson(network, drawn_env(5))
    log = lesson.refine(400, np.random.default_rng(0))
    seen, paid = join_logs([log])
    assert len(seen) == log.filled[0]
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    before = compute_move_loss(network, seen, paid).item()
    for _ in range(60):
        optimizer.zero_grad()
        compute_move_loss(network, seen, paid).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    lesson.placer.refresh()
    promise = network.promise_of(seen).detach()
    assert compute_move_loss(network, seen, paid).item() < 0.8 * before
    assert promise[paid > 0].mean() > promise[paid == 0].mean() + 1.0
    assert lesson.placer.move_scorer.used


def test_a_visit_makes_labels_of_what_it_reaches() -> None:
    lesson = Lesson(Network(hidden=4), drawn_env(5))
    lesson.refine(200, np.random.default_rng(0))
    first = lesson.search.speedups.max()
    lesson.refine(200, np.random.default_rng(1))
    speedups, feasible = lesson.env.backend.evaluate_batch(lesson.search.parents)
    assert feasible.all()
    assert speedups.max() == lesson.search.speedups.max() >= first


def test_the_search_begins_with_the_networks_placement_and_keeps_to_its_budget() -> None:
    env = drawn_env(4)
    searches = [Refined(env, 0, Network(hidden=8), moves=50, horizon=40) for _ in range(2)]
    first = searches[0].learn(1).best_speedup
    assert (searches[0].assignment == searches[0].placer.place()).all()
    assert searches[0].learn(39).best_speedup > first
    assert searches[0].evaluations <= 40
    searches[1].learn(1).learn(39)
    assert (searches[1].assignment == searches[0].assignment).all()
    assert not env.problem.infeasibility(searches[0].assignment)


def test_refining_beats_samples_of_the_same_network() -> None:
    env = gym.make(
        "placement_gym:DevicePlacementSim-v0",
        model=str(RESNET),
        devices="1cpu+2acc@0.3",
        granularity="op",
        schedule="list",
    )
    refined, sampled = (
        make(env, 0, checkpoint="none", refine=refine).learn(20).best_speedup
        for refine in (True, False)
    )
    assert refined > 1.01 * sampled


def test_a_measured_environment_is_modelled_as_taking_turns() -> None:
    env = placement_env(gym.make("placement_gym:DevicePlacementSim-v0", model="tiny"))
    backend = env.backend

    class Measured:
        """A backend that says nothing of a schedule."""

    assert Schedule.of(env.problem, env.cost_table(), Measured()).kind == SERIAL  # type: ignore[arg-type]
    assert Schedule.of(env.problem, env.cost_table(), backend).kind == SERIAL
