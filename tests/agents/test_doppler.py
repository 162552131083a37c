# White-box tests of agents.doppler
"""DOPPLER: its graph, its schedule, its teacher, its likelihood, and faults it must not have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from by_hand import cost_table, grouped, made_graph
from fakes import diamond_costs, diamond_problem
from learned import simulated

from agents.common import save_weights
from agents.doppler import make
from agents.doppler.doppler import Doppler
from agents.doppler.episodes import (
    Settings,
    compare_with_teacher,
    compute_likelihood,
    mark_earliest,
    mark_largest,
    play,
)
from agents.doppler.networks import DualPolicy
from agents.doppler.schedule import Schedules, TaskGraph, find_longest, mark_paths
from placement_gym.base import UserError
from placement_gym.envs import DevicePlacementEnv
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Problem
from placement_gym.solvers import critical_path

LIMITED = [
    {"name": "CPU", "roofline": "CPU"},
    {"name": "GPU", "roofline": "GPU", "weight_share": 0.4},
    {"name": "GPU2", "roofline": "GPU", "weight_share": 0.4},
]
QUICK = {"imitation": 2, "simulation": 1, "hidden": 8, "rounds": 1}


def limited(**kwargs: Any) -> DevicePlacementEnv:
    return simulated(devices=LIMITED, schedule="list", **kwargs)


def graph_of(env: DevicePlacementEnv) -> TaskGraph:
    return TaskGraph.from_problem(env.problem, env.cost_table())


def policy() -> DualPolicy:
    torch.manual_seed(0)
    return DualPolicy(8, 1, Settings().n_features)


def test_longest_paths_belong_to_their_own_nodes() -> None:
    """The published code stacks levels in another order than it reads them."""
    own = np.array([1.0, 2.0, 5.0, 1.0])
    source, target = np.array([0, 0, 1, 2]), np.array([1, 2, 3, 3])
    moved = np.array([1.0, 1.0, 1.0, 2.0])
    down, following = find_longest(own, source, target, moved)
    assert down.tolist() == [10.0, 4.0, 8.0, 1.0]
    assert mark_paths(following).to_dense().tolist() == [
        [1, 0, 1, 1],
        [0, 1, 0, 1],
        [0, 0, 1, 1],
        [0, 0, 0, 1],
    ]
    up, _ = find_longest(own, target, source, moved)
    assert up.tolist() == [1.0, 4.0, 7.0, 10.0]


def test_the_teacher_is_list_scheduling_by_the_longest_path() -> None:
    env = simulated(devices=LIMITED, schedule="list", model="inception")
    graph = graph_of(env)
    schedules = Schedules(graph, 1, respect_memory=True)
    for _ in range(len(graph)):
        node = mark_largest(graph.down, schedules.candidates).argmax(axis=1)
        choices = schedules.describe_devices(node)
        best = mark_earliest(choices, graph.ms[node])
        schedules.add(node, best.argmax(axis=1), choices.start)
    expected = critical_path(env.problem, env.cost_table())
    assert schedules.device[0].tolist() == expected.tolist()


def test_the_own_schedule_counts_waits_for_inputs() -> None:
    """In the published code a node starts when its device's load ends, whatever it waits for."""
    env = simulated(devices="cpu+igpu", schedule={"preset": "list", "order": "priority"})
    graph = graph_of(env)
    rng = np.random.default_rng(0)
    forced = rng.integers(2, size=(8, env.problem.n_units))  # in the teacher's order of nodes
    schedules = Schedules(graph, 8, respect_memory=True)
    for _ in range(len(graph)):
        node = mark_largest(graph.down, schedules.candidates).argmax(axis=1)
        device = forced[np.arange(8), graph.unit[node]]
        schedules.add(node, device, schedules.describe_devices(node).start)
    reached = env.backend.evaluate_batch(forced).speedup
    expected = env.reference.reference_ms / reached
    assert schedules.length_ms() == pytest.approx(expected, rel=1e-6)


def test_ties_are_all_marked() -> None:
    graph = graph_of(limited())
    trace = play(policy(), graph, Settings(), np.random.default_rng(0), 2)
    shown = np.where(trace.candidates, graph.down, -np.inf)
    assert (trace.teacher_node == (trace.candidates & (shown == shown.max(2)[..., None]))).all()
    assert (trace.teacher_device <= trace.allowed).all()
    assert trace.teacher_device.any(axis=2).all()


def test_nodes_come_after_their_makers_and_placements_fit() -> None:
    env = limited(model="inception")
    graph = graph_of(env)
    trace = play(policy(), graph, Settings(), np.random.default_rng(0), 4)
    for row in trace.node:
        place = np.argsort(row)
        for node, makers in enumerate(graph.maker):
            assert all(place[maker] < place[node] for maker in makers[makers >= 0])
    assert all(not env.problem.infeasibility(one) for one in trace.placement)


def test_the_likelihood_is_that_of_the_decisions_that_were_taken() -> None:
    """Sampled as often as it says: nothing off-policy, as with the published argmax."""
    graph, chooser = graph_of(limited()), policy()
    rng = np.random.default_rng(0)
    trace = play(chooser, graph, Settings(), rng, 4000)
    with torch.no_grad():
        likelihood = compute_likelihood(chooser, graph, trace)
    chosen = torch.from_numpy(trace.device[:, 0])
    nodes = torch.from_numpy(trace.node[:, 0])
    first = nodes.mode().values
    said = likelihood.device[nodes == first][0, 0].exp()
    counted = torch.bincount(chosen[nodes == first], minlength=3) / (nodes == first).sum()
    assert (said - counted).abs().max() < 0.04
    assert likelihood.of(trace).max() <= 1e-6


def test_imitation_lowers_the_loss_and_reaches_every_weight() -> None:
    agent = make(limited(), 0, **QUICK)
    before = loss_of(agent)
    silent = set(dict(agent.policy.named_parameters()))
    for name, weight in agent.policy.named_parameters():
        weight.register_post_accumulate_grad_hook(
            lambda p, name=name: silent.discard(name) if p.grad.abs().sum() > 0 else None
        )
    agent.settings = replace(agent.settings, imitation=20)
    agent.imitate_teacher()
    assert loss_of(agent) < before
    assert not silent


def loss_of(agent: Doppler) -> float:
    trace = play(agent.policy, agent.graph, Settings(), np.random.default_rng(1), 8)
    with torch.no_grad():
        likelihood = compute_likelihood(agent.policy, agent.graph, trace)
        return float(compare_with_teacher(likelihood, trace, published=False))


def test_only_the_last_stage_evaluates() -> None:
    env = limited()
    agent = make(env, 0, **QUICK)
    agent.imitate_teacher()
    agent.learn_on_own_schedule()
    assert agent.evaluations == 0
    agent.learn(25)
    assert agent.evaluations == 25


def test_a_policy_is_kept_without_its_graph(tmp_path: Path) -> None:
    agent = make(limited(), 0, **QUICK)
    agent.learn(10)
    save_weights(agent, tmp_path / "policy.safetensors")
    trained = {**QUICK, "weights": tmp_path / "policy.safetensors"}
    again = make(limited(), 1, **trained)
    assert again.assignment.tolist() == agent.assignment.tolist()
    other = make(limited(model="inception"), 1, **trained)
    assert len(other.assignment) == other.problem.n_units


def test_a_file_of_other_features_is_refused(tmp_path: Path) -> None:
    agent, file = make(limited(), 0, preset="paper", **QUICK), tmp_path / "policy.safetensors"
    save_weights(agent, file)
    with pytest.raises(UserError, match="train again"):
        make(limited(), 0, **QUICK, weights=file)


def make_graph(made: list[tuple[int, list[int]]], labels: list[int]) -> TaskGraph:
    """Operators of 1 ms in units of these labels; ``made``: see ``made_graph``."""
    graph = made_graph(3, made)
    units, devices = grouped(graph, np.array(labels)), (DeviceSpec("A"), DeviceSpec("B"))
    problem = Problem(units, devices, np.ones((len(units), 2), dtype=np.bool_))
    return TaskGraph.from_problem(problem, cost_table(graph, np.ones((3, 2)), np.ones(len(made))))


def test_nodes_that_read_nothing_are_placed() -> None:
    trace = play(policy(), make_graph([], [0, 1, 2]), Settings(), np.random.default_rng(0), 2)
    assert trace.placement.shape == (2, 3)


def test_a_unit_takes_its_memory_once() -> None:
    graph = make_graph([(0, [1]), (1, [2])], [0, 1, 0])
    vars(graph.problem).update(unit_bytes=np.array([6.0, 1.0]), limits_bytes=np.full(2, 10.0))
    schedules, free = Schedules(graph, 1, respect_memory=True), []
    for node in range(3):
        offer = schedules.describe_devices(np.array([node]))
        free.append(offer.features[0, 0, 7])
        schedules.add(np.array([node]), np.array([0]), offer.start)
    assert free == pytest.approx([0.4, 0.3, 0.3])


POOL = (
    DeviceSpec("CPU", memory_pool="host", memory_bytes=500),
    DeviceSpec("GPU", memory_pool="host"),
    DeviceSpec("GPU.1"),
)


def test_schedules_offer_what_is_left_of_a_pool() -> None:
    problem = diamond_problem(POOL)  # 500 bytes together; units hold 100, 200, 300 and 400
    graph = TaskGraph.from_problem(problem, diamond_costs(problem))
    schedules = Schedules(graph, 1, respect_memory=True)
    for node, device in ((0, 0), (1, 1)):
        offer = schedules.describe_devices(np.array([node]))
        assert offer.allowed[0].tolist() == [True, True, True]
        schedules.add(np.array([node]), np.array([device]), offer.start)
    assert schedules.describe_devices(np.array([2])).allowed[0].tolist() == [False, False, True]


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        make(limited(), 0, colour=1)


@pytest.mark.slow
def test_it_finds_the_optimum_of_the_toy() -> None:
    env = simulated()
    agent = make(env, 0)
    agent.learn(400)
    best = max(
        env.backend.evaluate(np.array([int(c) for c in f"{code:07b}"])).speedup
        for code in range(128)
    )
    assert agent.best_speedup == pytest.approx(best)
    assert env.backend.evaluate(agent.assignment).speedup == pytest.approx(best)


def test_schedules_start_empty() -> None:
    graph = graph_of(limited())
    schedules = Schedules(graph, 2, respect_memory=True)
    assert schedules.candidates[0].tolist() == (graph.maker < 0).all(axis=1).tolist()


def test_more_nodes_than_it_places_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.doppler.doppler.MAX_NODES", 6)
    with pytest.raises(UserError, match=r"up to 6 nodes .*, not 7: .* the agent 'search'"):
        make(simulated(), 0)
