"""The compiled list scheduler: bitwise a slow one, limits, preferences, prices."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import cost_table, made_graph
from slow_decoder import decode_slowly, drawn_problem, fits_in_rank_order, prefer

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.devices import DeviceSpec
from placement_gym.graph.units import group
from placement_gym.problem import Problem
from placement_gym.solvers.decoder import Decoder, decode
from placement_gym.solvers.list_scheduling import critical_path

SEEDS = range(40)
LIMITED = (DeviceSpec("device0"), DeviceSpec("device1", weight_share=0.5))


def decode_with(
    problem: Problem,
    costs: CostTable,
    preference: FloatArray | None = None,
    price: float = 0.0,
) -> IntArray:
    """(n_units,) one sample with one row of preferences."""
    decoder = Decoder.of(problem, costs)
    rows = np.zeros((1, len(problem.devices))) if preference is None else preference
    run = np.zeros((1, len(decoder.unit)), dtype=np.uint32)
    return decode(decoder, run, rows, np.array([price]))[0]


def independent(ms: object, held: object, devices: tuple[DeviceSpec, ...] = LIMITED) -> Problem:
    graph = made_graph(len(np.array(ms)), [])
    supported = np.ones((len(graph), len(devices)), dtype=np.bool_)
    return Problem(group(graph, "op"), devices, supported, np.array(held, dtype=np.int64))


def costs_of(problem: Problem, ms: object) -> CostTable:
    return cost_table(problem.units.graph, ms, [])


@pytest.mark.parametrize("grouping", [False, True])
def test_it_decodes_bitwise_as_the_slow_one(grouping: bool) -> None:
    for seed in SEEDS:
        problem, costs = drawn_problem(seed, grouping)
        decoder, rng = Decoder.of(problem, costs), np.random.default_rng(seed)
        k, n_tasks, rows = 3, len(decoder.unit), 4
        run = rng.integers(0, rows, (k, n_tasks)).astype(np.uint32)
        preference = rng.normal(size=(rows, len(problem.devices)))
        price = rng.random(k) * 3
        placements = decode(decoder, run, preference, price)
        for sample in range(k):
            wanted = prefer(run[sample], preference, price[sample], problem)
            assert placements[sample].tolist() == decode_slowly(problem, costs, wanted)


def test_without_preferences_it_is_list_scheduling_by_the_critical_path() -> None:
    for seed in SEEDS:
        problem, costs = drawn_problem(seed)
        assert decode_with(problem, costs).tolist() == critical_path(problem, costs).tolist()


@pytest.mark.parametrize("grouping", [False, True])
def test_a_full_device_takes_nothing_while_another_has_room(grouping: bool) -> None:
    for seed in SEEDS:
        problem, costs = drawn_problem(seed, grouping)
        wanted = np.full((1, len(problem.devices)), 0.0)
        wanted[0, -1] = 1e9  # a limited device
        placement = decode_with(problem, costs, wanted)
        assert problem.unsupported(placement) == ""
        assert fits_in_rank_order(problem, costs, placement)


def test_a_unit_that_fits_nowhere_goes_where_most_room_is_left() -> None:
    devices = (DeviceSpec("device0", weight_share=0.2), DeviceSpec("device1", weight_share=0.3))
    ms = [[9.0, 9.0], [1.0, 5.0]]
    problem = independent(ms, [25, 75], devices)
    assert decode_with(problem, costs_of(problem, ms)).tolist() == [1, 0]


def test_a_limit_that_is_exactly_reached_is_not_exceeded() -> None:
    ms = [[9.0, 1.0]] * 4
    problem = independent(ms, [10] * 4)
    placement = decode_with(problem, costs_of(problem, ms), np.array([[0.0, 99.0]]))
    assert problem.memory_bytes(placement).tolist() == [20, 20]


def test_a_price_of_memory_saves_room_for_what_gains_more_per_byte() -> None:
    ms = [[9.0, 8.0], [8.0, 1.0]]
    problem = independent(ms, [50, 50])
    costs = costs_of(problem, ms)
    assert decode_with(problem, costs).tolist() == [1, 0]
    assert decode_with(problem, costs, price=0.5).tolist() == [0, 1]


def test_a_device_without_any_memory_takes_what_needs_none() -> None:
    devices = (DeviceSpec("device0"), DeviceSpec("device1", memory_bytes=0))
    ms = [[9.0, 1.0], [9.0, 1.0]]
    problem = independent(ms, [0, 10], devices)
    assert decode_with(problem, costs_of(problem, ms), price=1.0).tolist() == [1, 0]
