"""The sequential placer: its decoder, likelihood, networks in files, training, and the agent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from by_hand import cost_table, made_graph
from published import DATA
from slow_decoder import drawn_problem, fits_in_rank_order

from agents.sequential import Network, Sequential
from agents.sequential.agent import TRAINED_NOISE, WEIGHTS, make
from agents.sequential.board import ADDED, FINISH, LOAD, Board, choose_goal
from agents.sequential.checkpoint import load_network, save_network
from agents.sequential.decoding import estimate, replay
from agents.sequential.evolution import evolve
from agents.sequential.features import describe
from agents.sequential.imitation import imitate
from agents.sequential.placer import Placer
from agents.sequential.training import MOVES
from placement_gym.arrays import IntArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.costs.semantics import Semantics
from placement_gym.costs.table import CostTable
from placement_gym.devices import DeviceSpec
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.errors import UserError
from placement_gym.graph.units import group
from placement_gym.problem import Problem
from placement_gym.solvers.list_sampling import decode_noise, draw_noise, draw_prices

BERT = DATA / "latency-inputs/LayerGraphs/bert24_inference.json"
BY_RANK = {"preset": "list", "order": "priority"}
LIST = Semantics("list", contention="none", order="priority")
SEEDS = range(12)


def random_network(seed: int = 0, strength: float = 2.0) -> Network:
    """A network with strong preferences."""
    torch.manual_seed(seed)
    network = Network(hidden=8)
    torch.nn.init.normal_(network.out.weight, std=strength)
    return network


def make_env(problem: Problem, costs: CostTable, semantics: Semantics = LIST) -> DevicePlacementEnv:
    return DevicePlacementEnv(SimulatedBackend(problem, costs, semantics), observe_graph=False)


def drawn_env(seed: int, grouping: bool = False) -> DevicePlacementEnv:
    return make_env(*drawn_problem(seed, grouping))


def limited(model: Path = BERT, **kwargs: Any) -> gym.Env[Any, Any]:
    return gym.make(
        "placement_gym:DevicePlacementSim-v0",
        **{"model": str(model), "devices": "1cpu+2acc@0.3", "granularity": "op"} | kwargs,
    )


def sample(placer: Placer, seed: int, k: int = 4) -> IntArray:
    decoder, rng = placer.board.decoder, np.random.default_rng(seed)
    return placer.sample(draw_noise(decoder, rng, draw_prices(decoder, rng, k)))


@pytest.mark.parametrize("grouping", [False, True])
def test_a_new_network_decodes_bitwise_as_list_sampling(grouping: bool) -> None:
    for seed in SEEDS:
        placer = Placer(Network(hidden=8), drawn_env(seed, grouping))
        decoder, rng = placer.board.decoder, np.random.default_rng(seed)
        noise = draw_noise(decoder, rng, draw_prices(decoder, rng, 5))
        assert (placer.sample(noise) == decode_noise(decoder, noise)).all()


@pytest.mark.parametrize("grouping", [False, True])
def test_whatever_a_network_prefers_support_and_room_hold(grouping: bool) -> None:
    for seed in SEEDS:
        env = drawn_env(seed, grouping)
        for placement in sample(Placer(random_network(seed, 50.0), env), seed):
            assert env.problem.unsupported(placement) == ""
            assert fits_in_rank_order(env.problem, env.cost_table(), placement)


def test_the_kernel_chooses_what_the_likelihood_says_is_likeliest() -> None:
    for seed in SEEDS:
        placer = Placer(random_network(seed), drawn_env(seed))
        placement = placer.place()
        chosen = placer.log_probabilities(placement[None])[0]
        n_devices = len(placer.board.decoder.limits_bytes)
        for unit in range(len(placement)):
            others = np.repeat(placement[None], n_devices, axis=0)
            others[:, unit] = np.arange(n_devices)
            assert chosen[unit] >= placer.log_probabilities(others)[:, unit].max() - 1e-5


def test_the_probabilities_of_each_step_add_up_to_one() -> None:
    placer = Placer(random_network(), placement_env(limited()))
    placement = placer.place()
    unit = int(placer.board.decoder.unit[10])
    others = np.repeat(placement[None], 3, axis=0)
    others[:, unit] = np.arange(3)
    total = placer.log_probabilities(others)[:, unit].exp().sum()
    assert float(total.detach()) == pytest.approx(1.0)


def test_what_support_forbids_has_no_probability() -> None:
    problem, costs = next(
        (problem, costs)
        for problem, costs in map(drawn_problem, range(50))
        if not problem.supports_all
    )
    unit, device = np.argwhere(~problem.supported)[0]
    placer = Placer(random_network(), make_env(problem, costs))
    placement = placer.place()
    placement[unit] = device
    assert placer.log_probabilities(placement[None])[0, unit] == -np.inf


def test_devices_in_another_order_get_the_same_units() -> None:
    for seed in SEEDS:
        problem, costs = drawn_problem(seed)
        order = np.random.default_rng(seed).permutation(len(problem.devices))
        total = int(problem.unit_bytes.sum())
        devices = tuple(
            DeviceSpec(costs.devices[i], memory_bytes=None if np.isinf(limit) else int(limit))
            for i, limit in ((i, problem.devices[i].limit_bytes(total)) for i in order)
        )
        shuffled = replace(
            costs,
            devices=tuple(costs.devices[i] for i in order),
            operator_ms=costs.operator_ms[:, order],
            supported=costs.supported[:, order],
            link_ms=costs.link_ms[np.ix_(order, order)],
            link_ms_per_size=costs.link_ms_per_size[np.ix_(order, order)],
            submodel_ms=costs.submodel_ms[order],
            host=costs.host[order],
        )
        same = Problem(problem.units, devices, problem.supported[:, order], problem.operator_bytes)
        before = replace(problem, devices=tuple(devices[i] for i in np.argsort(order)))
        network = random_network(seed)
        placement = Placer(network, make_env(before, costs)).place()
        assert (order[Placer(network, make_env(same, shuffled)).place()] == placement).all()


def test_neither_the_unit_of_time_nor_that_of_memory_matters() -> None:
    for seed in SEEDS:
        problem, costs = drawn_problem(seed)
        total = int(problem.unit_bytes.sum())
        devices = [
            DeviceSpec(d.name, memory_bytes=int(limit) if np.isfinite(limit) else None)
            for d, limit in ((d, d.limit_bytes(total)) for d in problem.devices)
        ]
        larger = [
            replace(d, memory_bytes=None if d.memory_bytes is None else 64 * d.memory_bytes)
            for d in devices
        ]
        assert problem.operator_bytes is not None
        scaled = replace(problem, devices=tuple(larger), operator_bytes=64 * problem.operator_bytes)
        slower = replace(
            costs,
            operator_ms=64.0 * costs.operator_ms,
            link_ms=64.0 * costs.link_ms,
            link_ms_per_size=64.0 * costs.link_ms_per_size,
        )
        plain = replace(problem, devices=tuple(devices))
        boards = Board.of(plain, costs), Board.of(scaled, slower)
        before = describe(plain, costs, boards[0])
        np.testing.assert_allclose(describe(scaled, slower, boards[1]), before, atol=0.03)
        placers = [Placer(random_network(seed), make_env(plain, c)) for c in (costs, slower)]
        placement = placers[0].place()
        seen = [replay(p.board, p.scorer, placement[None]).seen for p in placers]
        np.testing.assert_allclose(seen[0], seen[1], atol=1e-5)
        assert (placers[1].place() == placement).all()


def test_what_is_seen_is_small_and_finite() -> None:
    for seed in SEEDS:
        placer = Placer(random_network(seed), drawn_env(seed))
        seen = replay(placer.board, placer.scorer, sample(placer, seed)).seen
        for values in (seen, placer.graph.x.numpy()):
            assert np.isfinite(values).all()
            assert np.abs(values).max() <= 1.0 + 1e-6


def test_each_weight_gets_a_gradient() -> None:
    placer = Placer(random_network(), placement_env(limited()))
    placer.log_probabilities(sample(placer, 0)).sum().backward()
    for name, weight in placer.network.named_parameters():
        if name.startswith(MOVES):
            continue
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name


def chain_costs(ms: Any, size: float) -> tuple[Problem, CostTable]:
    """Two operators on two devices, the second of which reads the first's output."""
    graph = made_graph(2, [(0, [1])])
    costs = cost_table(graph, ms, [size], host=np.array([True, False]))
    devices = (DeviceSpec("device0"), DeviceSpec("device1"))
    return Problem(group(graph, "op"), devices, np.ones((2, 2), dtype=np.bool_)), costs


def place_untrained(problem: Problem, costs: CostTable, schedule: str) -> list[int]:
    env = make_env(problem, costs, Semantics(schedule))
    return Placer(Network(hidden=8), env).place().tolist()


def test_where_devices_take_turns_the_least_added_cost_decides() -> None:
    graph = made_graph(2, [])
    costs = cost_table(graph, [[3.0, 4.0], [3.0, 4.0]], [])
    devices = (DeviceSpec("device0"), DeviceSpec("device1"))
    problem = Problem(group(graph, "op"), devices, np.ones((2, 2), dtype=np.bool_))
    assert place_untrained(problem, costs, "serial") == [0, 0]
    assert place_untrained(problem, costs, "event") == [0, 1]
    # a transfer of 2 ms eats the gain of 1 ms
    assert place_untrained(*chain_costs([[3.0, 9.0], [4.0, 3.0]], 2.0), "serial") == [0, 0]
    assert place_untrained(*chain_costs([[3.0, 9.0], [4.0, 3.0]], 0.5), "serial") == [0, 1]


def test_for_throughput_the_largest_load_decides() -> None:
    # apart: 3 ms and 4 ms and the transfer on the accelerator; together: 5 ms
    ms = [[3.0, 9.0], [2.0, 4.0]]
    assert place_untrained(*chain_costs(ms, 0.5), "load") == [0, 1]
    assert place_untrained(*chain_costs(ms, 2.0), "load") == [0, 0]


@pytest.mark.parametrize(
    ("schedule", "goal"),
    [("serial", ADDED), ("list", FINISH), ("event", FINISH), ("tarnawski-throughput", LOAD)],
)
def test_the_schedule_chooses_the_goal(schedule: str, goal: int) -> None:
    env = gym.make("placement_gym:DevicePlacementSim-v0", model="tiny", schedule=schedule)
    assert choose_goal(placement_env(env).backend) == goal


def test_a_saved_network_places_as_before(tmp_path: Path) -> None:
    network, file = random_network(), tmp_path / "network.safetensors"
    save_network(network, file, {"seed": 3})
    env = limited()
    expected = Sequential(env, 0, network).assignment
    assert (make(env, 0, checkpoint=file).assignment == expected).all()
    assert (make(env, 0, checkpoint="none").assignment != expected).any()


def test_the_network_of_the_package_is_the_default_and_fits_in_memory() -> None:
    env = limited(schedule=BY_RANK)
    agent = make(env, 0)
    assert WEIGHTS.stat().st_size < 2**20
    assert agent.noise == TRAINED_NOISE
    assert (agent.assignment == make(env, 0, checkpoint=WEIGHTS).assignment).all()
    assert not placement_env(env).problem.infeasibility(agent.assignment)


def test_what_found_no_room_is_repaired() -> None:
    env = limited()
    agent = Sequential(env, 0, Network(hidden=8))
    crowded = np.ones((1, agent.problem.n_units), dtype=np.int64)
    assert agent.problem.infeasibility(crowded[0])
    assert not agent.problem.infeasibility(agent.repair(crowded)[0])


def test_what_a_placement_costs_in_the_model_is_its_latency() -> None:
    compared = 0
    for seed in SEEDS:
        env = drawn_env(seed)
        board = Board.of(env.problem, env.cost_table())
        placements = sample(Placer(random_network(seed), env), seed)
        speedups, feasible = env.backend.evaluate_batch(placements)
        expected = env.reference.reference_ms / speedups[feasible]
        np.testing.assert_allclose(estimate(board, placements)[feasible], expected)
        compared += int(feasible.sum())
    assert compared > len(SEEDS)


def test_a_network_that_follows_plans_places_as_the_cheapest_plan() -> None:
    env = placement_env(limited(schedule=BY_RANK))
    network = Network(hidden=8)
    network.follow_plans(strength=1e6)
    placer = Placer(network, env)
    assert placer.board.plan_ms.argmin() == estimate(placer.board, placer.board.plans).argmin()
    assert (placer.place() == placer.board.plan).all()


def test_a_checkpoint_with_other_features_is_refused_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "network.safetensors"
    save_network(Network(), file, {})
    file.write_bytes(file.read_bytes().replace(b"share of tasks", b"SHARE OF TASKS"))
    with pytest.raises(UserError, match="other features; train it again"):
        load_network(file)


def test_a_prediction_needs_no_evaluation() -> None:
    env = limited(schedule=BY_RANK)
    agent = Sequential(env, 0, random_network())
    observation, _ = env.reset(seed=0)
    action, _ = agent.predict(observation, deterministic=True)
    assert (action == agent.placer.place()).all()
    assert agent.evaluations == 0
    assert not placement_env(env).problem.infeasibility(action)


def test_it_searches_from_its_own_placement_within_the_budget() -> None:
    env = limited(schedule=BY_RANK)
    first, same = (Sequential(env, 0, random_network()).learn(1) for _ in range(2))
    assert (first.assignment == first.placer.place()).all()
    zero_shot = first.best_speedup
    assert first.learn(60).best_speedup > zero_shot
    assert first.evaluations == 61
    assert (same.learn(60).assignment == first.assignment).all()


RESNET = DATA / "latency-inputs/LayerGraphs/resnet50_inference.json"


def zero_shot(env: gym.Env[Any, Any], network: Network) -> float:
    return Sequential(env, 0, network).learn(1).best_speedup


@pytest.mark.slow
def test_imitation_raises_the_likelihood_of_the_fastest_and_the_zero_shot_speedup() -> None:
    env = placement_env(limited(schedule=BY_RANK))
    torch.manual_seed(0)
    network = Network(hidden=8)
    fastest = Sequential(env, 1, network).learn(200).assignment
    placer = Placer(network, env)
    before = placer.log_probabilities(fastest[None]).sum().item(), zero_shot(env, network)
    imitate(network, [env], 15, evaluations=20, learning_rate=2e-2)
    placer.refresh()
    after = placer.log_probabilities(fastest[None]).sum().item(), zero_shot(env, network)
    assert after[0] > before[0]
    assert after[1] > 1.05 * before[1]


@pytest.mark.slow
def test_evolution_raises_the_zero_shot_speedup() -> None:
    env = placement_env(limited(model=RESNET, schedule=BY_RANK))
    torch.manual_seed(0)
    network = Network(hidden=8)
    before = zero_shot(env, network)
    evolve(network, [env], 10, pairs=8, samples=2, spread=0.3, learning_rate=0.1)
    assert zero_shot(env, network) > 1.05 * before
