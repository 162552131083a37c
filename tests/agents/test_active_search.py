"""Active search: what it learns from, and what it leaves alone."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from slow_decoder import drawn_problem

from agents.search.search import UNFIT
from agents.sequential import Network, Sequential
from agents.sequential.active_search import ActiveSearch, choose_extremes, compute_advantages
from agents.sequential.agent import make
from placement_gym.arrays import IntArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.env import DevicePlacementEnv
from placement_gym.solvers.list_sampling import draw_noise


def make_env(seed: int = 3) -> DevicePlacementEnv:
    return DevicePlacementEnv(SimulatedBackend(*drawn_problem(seed)), observe_graph=False)


def make_search() -> ActiveSearch:
    torch.manual_seed(0)
    return ActiveSearch(make_env(), 0, Network(hidden=4))


def draw_two(search: ActiveSearch) -> IntArray:
    """(2, n_units) different placements that the decoder may make."""
    noise = draw_noise(search.decoder, np.random.default_rng(0), np.zeros(20))
    placements = np.unique(search.decode(noise), axis=0)
    assert len(placements) > 1
    return placements[:2]


@pytest.mark.parametrize("faster", [0, 1])
def test_an_update_raises_the_likelihood_of_what_is_faster(faster: int) -> None:
    search = make_search()
    search.imitation = 0.0
    placements, speedups = draw_two(search), np.array([1.0, 1.0])
    speedups[faster] = 2.0
    search.parents = placements[:1]
    before = search.compute_likelihood(placements).detach()
    for _ in range(5):
        search.update(placements, speedups)
    gain = (search.compute_likelihood(placements).detach() - before).tolist()
    assert gain[faster] > gain[1 - faster]


def test_imitation_raises_the_likelihood_of_the_fastest_so_far() -> None:
    search = make_search()
    placements = draw_two(search)
    search.parents = placements[1:]
    before = search.compute_likelihood(placements[1:]).item()
    for _ in range(5):
        search.update(placements[:1], np.ones(1))
    assert search.compute_likelihood(placements[1:]).item() > before


def test_what_was_learned_decides_the_next_samples() -> None:
    search, other = make_search(), make_search()
    placements = draw_two(search)
    search.parents = placements[1:]
    for _ in range(60):
        search.update(placements[:1], np.ones(1))
    assert (search.placer.place() == placements[1]).mean() > 0.9
    assert (other.placer.place() == placements[1]).mean() < 0.9


def test_the_network_that_it_started_from_is_unchanged() -> None:
    network = Network(hidden=4)
    before = deepcopy(network.state_dict())
    ActiveSearch(make_env(), 0, network).learn(40)
    assert all((before[name] == value).all() for name, value in network.state_dict().items())


def test_it_keeps_to_its_budget_and_is_never_behind_its_first_placement() -> None:
    env = make_env()
    search = make(env, 0, fine_tune=True)
    assert isinstance(search, ActiveSearch)
    first = search.learn(1).best_speedup
    assert search.learn(49).evaluations <= 50
    assert search.best_speedup >= first
    assert type(make(env, 0)) is Sequential


def test_the_fastest_and_the_slowest_are_learned_from() -> None:
    speedups = np.array([5.0, 1, 9, 2, 8, 3, 7, 4, 6, 0.5])
    assert choose_extremes(speedups).tolist() == [2, 4, 6, 8, 5, 3, 1, 9]
    assert choose_extremes(speedups[:3]).tolist() == [2, 0, 1]


def test_what_is_infeasible_counts_as_the_worst() -> None:
    advantages = compute_advantages(np.array([2.0, 1.0, UNFIT]))
    assert advantages[0] > advantages[1] == advantages[2]
    assert (compute_advantages(np.array([UNFIT, UNFIT])) == 0.0).all()
    assert compute_advantages(np.array([3.0])).tolist() == [0.0]
