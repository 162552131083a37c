"""Active search: what it learns from, and what it leaves alone."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import torch
from slow_decoder import drawn_problem

from agents.sequential import Network, Sequential
from agents.sequential.active_search import ActiveSearch
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


def test_an_update_raises_the_likelihood_of_the_fastest_so_far() -> None:
    search = make_search()
    search.parents = draw_two(search)
    before = search.compute_likelihood(search.parents).detach()
    for _ in range(5):
        search.update()
    gain = (search.compute_likelihood(search.parents).detach() - before).tolist()
    assert gain[0] > max(gain[1], 0.0)


def test_what_was_learned_decides_the_next_samples() -> None:
    search, other = make_search(), make_search()
    placements = draw_two(search)
    search.parents = placements[1:]
    for _ in range(60):
        search.update()
    assert (search.placer.place() == placements[1]).mean() > 0.9
    assert (other.placer.place() == placements[1]).mean() < 0.9


def test_the_network_that_it_started_from_is_unchanged() -> None:
    network = Network(hidden=4)
    before = deepcopy(network.state_dict())
    ActiveSearch(make_env(), 0, network, begin=0).learn(40)
    assert all((before[name] == value).all() for name, value in network.state_dict().items())


def test_it_keeps_to_its_budget_and_is_never_behind_its_first_placement() -> None:
    env = make_env()
    search = make(env, 0, fine_tune=True)
    assert isinstance(search, ActiveSearch)
    first = search.learn(1).best_speedup
    assert search.learn(49).evaluations <= 50
    assert search.best_speedup >= first
    assert type(make(env, 0, refine=False)) is Sequential


def test_it_learns_nothing_before_its_first_evaluations() -> None:
    env, network = make_env(), Network(hidden=4)
    search = ActiveSearch(env, 0, network, begin=40, batch=20)
    plain = Sequential(env, 0, network, batch=20)
    assert (search.learn(40).parents == plain.learn(40).parents).all()
    assert (search.placer.network.out.weight == 0.0).all()
    search.learn(20)
    assert (search.placer.network.out.weight != 0.0).any()
