"""Schedules worked out by hand, of the kernels and of the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from by_hand import Made, cost_table, grouped, ints, made_graph
from oracle import Oracle

from placement_gym import CostTable
from placement_gym.problem.costs.semantics import CHOICES, Semantics
from placement_gym.schedules.simulator import Simulator

Simulate = type[Oracle] | type[Simulator]
Times = list[float]
BOTH = pytest.mark.parametrize("simulate", [Oracle, Simulator])


def scheduled(
    simulate: Simulate, costs: CostTable, made: Made, on: Sequence[int], semantics: Semantics
) -> tuple[float, Times, Times]:
    """Latency, starts and finishes of operators that are placed one by one."""
    graph = made_graph(len(on), made)
    simulator: Any = simulate(grouped(graph, np.arange(len(on))), costs, semantics)
    latency, start, finish = simulator.schedule(np.array(on, dtype=np.uint8))
    return latency, list(start), list(finish)


def latency_of(
    simulate: Simulate, costs: CostTable, made: Made, on: Sequence[int], semantics: Semantics
) -> float:
    graph = made_graph(len(on), made)
    simulator: Any = simulate(grouped(graph, np.arange(len(on))), costs, semantics)
    return float(simulator.latency_ms(np.array(on, dtype=np.uint8)))


def everywhere(
    ms: Sequence[float], n_devices: int, made: Made, transfer_size: Sequence[float], **kwargs: Any
) -> CostTable:
    """Costs of operators that take as long on every device."""
    table = np.repeat(np.array(ms, dtype=np.float64)[:, None], n_devices, axis=1)
    return cost_table(made_graph(len(ms), made), table, transfer_size, **kwargs)


PAIR: Made = [(0, [1])]


@BOTH
@pytest.mark.parametrize("schedule", ["event", "list"])
def test_a_reader_elsewhere_waits_for_the_transfer(simulate: Simulate, schedule: str) -> None:
    costs = everywhere([2, 3], 2, PAIR, [4])
    expected = 9, [0, 6], [2, 9]
    assert scheduled(simulate, costs, PAIR, (0, 1), Semantics(schedule)) == expected


@BOTH
def test_serial_schedule_adds_operators_transfers_and_submodels(simulate: Simulate) -> None:
    costs = everywhere([2, 3], 2, PAIR, [4], submodel_ms=[10, 20])
    assert latency_of(simulate, costs, PAIR, (0, 1), Semantics()) == 2 + 4 + 3 + 10 + 20
    assert latency_of(simulate, costs, PAIR, (1, 1), Semantics()) == 2 + 3 + 20


FAN: Made = [(0, [1, 2, 3])]
FAN_LINK_MS = [[0, 3, 5], [0, 0, 0], [0, 0, 0]]


@BOTH
def test_a_serial_schedule_sends_a_tensor_once_to_each_device(simulate: Simulate) -> None:
    costs = everywhere([1, 1, 1, 1], 3, FAN, [0], link_ms=FAN_LINK_MS)
    assert latency_of(simulate, costs, FAN, (0, 1, 1, 2), Semantics()) == 4 + 3 + 5


@BOTH
def test_a_load_is_a_devices_operators_and_half_of_each_transfer(simulate: Simulate) -> None:
    costs = everywhere([2, 3], 2, PAIR, [4])
    assert latency_of(simulate, costs, PAIR, (0, 1), Semantics("load")) == 3 + 4 / 2


@BOTH
@pytest.mark.parametrize(
    ("on", "busiest_ms"), [((0, 1, 1, 2), 4 + 3), ((1, 0, 2, 2), 4 + 1 + 3), ((1, 0, 0, 0), 2 + 3)]
)
def test_accelerators_pay_a_tensor_once_and_the_host_does_not(
    simulate: Simulate, on: tuple[int, ...], busiest_ms: float
) -> None:
    operator_ms = [[0, 2, 2], [0, 0.5, 0.5], [0, 1, 1], [0, 4, 4]]
    costs = cost_table(made_graph(4, FAN), operator_ms, [3], host=[True, False, False])
    assert latency_of(simulate, costs, FAN, on, Semantics("load")) == busiest_ms


TWO_TENSORS: Made = [(0, [1]), (0, [2])]


@BOTH
@pytest.mark.parametrize("schedule", ["event", "list"])
@pytest.mark.parametrize(
    ("contention", "finish"),
    [
        ("source", [2, 7, 8]),
        ("both", [2, 7, 8]),
        ("dest", [2, 7, 4]),
        ("link", [2, 7, 4]),
        ("none", [2, 7, 4]),
    ],
)
def test_transfers_from_one_device_queue_on_a_shared_channel(
    simulate: Simulate, schedule: str, contention: str, finish: Times
) -> None:
    costs = everywhere([2, 1, 1], 3, TWO_TENSORS, [4, 1])
    semantics = Semantics(schedule, contention=contention)
    result = scheduled(simulate, costs, TWO_TENSORS, (0, 1, 2), semantics)
    assert result == (max(finish), [0, finish[1] - 1, finish[2] - 1], finish)


@BOTH
@pytest.mark.parametrize("schedule", ["event", "list"])
@pytest.mark.parametrize(("contention", "start"), [("dest", 9), ("both", 9), ("source", 6)])
def test_transfers_to_one_device_queue_on_a_shared_channel(
    simulate: Simulate, schedule: str, contention: str, start: float
) -> None:
    made: Made = [(0, [2]), (1, [2])]
    costs = everywhere([1, 2, 1], 3, made, [5, 3])
    semantics = Semantics(schedule, contention=contention)
    result = scheduled(simulate, costs, made, (0, 1, 2), semantics)
    assert result == (start + 1, [0, 0, start], [1, 2, start + 1])


TWO_PAIRS: Made = [(0, [1]), (2, [3])]


@BOTH
@pytest.mark.parametrize(("contention", "start"), [("both", 5), ("source", 2), ("dest", 2)])
def test_sending_device_receives_only_over_another_channel(
    simulate: Simulate, contention: str, start: float
) -> None:
    costs = everywhere([1, 1, 2, 1], 3, TWO_PAIRS, [4, 3])
    semantics = Semantics("event", contention=contention)
    arrival = start + 3
    expected = max(arrival + 1, 6), [0, 5, 0, arrival], [1, 6, 2, arrival + 1]
    assert scheduled(simulate, costs, TWO_PAIRS, (0, 1, 2, 0), semantics) == expected


@BOTH
def test_a_link_carries_one_transfer_in_either_direction(simulate: Simulate) -> None:
    costs = everywhere([1, 1, 2, 1], 2, TWO_PAIRS, [4, 3])
    semantics = Semantics("event", contention="link")
    expected = 9, [0, 5, 0, 8], [1, 6, 2, 9]
    assert scheduled(simulate, costs, TWO_PAIRS, (0, 1, 1, 0), semantics) == expected


@BOTH
@pytest.mark.parametrize("schedule", ["event", "list"])
@pytest.mark.parametrize(
    ("transfer", "start", "latency"),
    [("dest", [0, 4, 5, 9], 10), ("edge", [0, 4, 7, 12], 13), ("output", [0, 6, 7, 6], 8)],
)
def test_tensor_goes_to_each_device_each_reader_or_all_at_once(
    simulate: Simulate, schedule: str, transfer: str, start: Times, latency: float
) -> None:
    costs = everywhere([1, 1, 1, 1], 3, FAN, [0], link_ms=FAN_LINK_MS)
    semantics = Semantics(schedule, transfer=transfer)
    finish = [time + 1 for time in start]
    assert scheduled(simulate, costs, FAN, (0, 1, 1, 2), semantics) == (latency, start, finish)


@BOTH
@pytest.mark.parametrize("schedule", ["event", "list"])
@pytest.mark.parametrize("order", CHOICES["order"])
def test_a_device_rests_after_each_operator_and_after_the_last(
    simulate: Simulate, schedule: str, order: str
) -> None:
    costs = everywhere([1, 1], 1, PAIR, [4])
    semantics = Semantics(schedule, order=order, op_gap_ms=0.5)
    expected = 3.0, [0, 1.5], [1, 2.5]
    assert scheduled(simulate, costs, PAIR, (0, 0), semantics) == expected


@BOTH
@pytest.mark.parametrize("schedule", ["event", "list"])
def test_a_link_rests_after_each_transfer_and_after_the_last(
    simulate: Simulate, schedule: str
) -> None:
    costs = everywhere([1, 1, 1], 2, TWO_TENSORS, [1, 1])
    semantics = Semantics(schedule, op_gap_ms=0.5, link_gap_ms=2)
    expected = 7, [0, 2, 5], [1, 3, 6]
    assert scheduled(simulate, costs, TWO_TENSORS, (0, 1, 1), semantics) == expected


@BOTH
@pytest.mark.parametrize("schedule", ["event", "list"])
@pytest.mark.parametrize(
    ("order", "start", "latency"), [("fifo", [0, 1, 2], 7), ("priority", [1, 0, 1], 6)]
)
def test_priority_runs_the_longest_remaining_path_first(
    simulate: Simulate, schedule: str, order: str, start: Times, latency: float
) -> None:
    made: Made = [(1, [2])]
    costs = everywhere([1, 1, 5], 2, made, [0])
    finish = [start[0] + 1, start[1] + 1, start[2] + 5]
    semantics = Semantics(schedule, order=order)
    assert scheduled(simulate, costs, made, (0, 0, 1), semantics) == (latency, start, finish)


@BOTH
def test_priority_counts_the_mean_transfer_between_two_devices(simulate: Simulate) -> None:
    made: Made = [(0, [2]), (1, [3])]
    costs = everywhere([1, 1, 4, 3], 2, made, [0, 1], link_ms_per_size=[[0, 1], [3, 0]])
    semantics = Semantics("event", order="priority")
    expected = 9, [1, 0, 2, 6], [2, 1, 6, 9]
    assert scheduled(simulate, costs, made, (0, 0, 0, 0), semantics) == expected


@BOTH
def test_device_chooses_when_all_of_the_moment_has_arrived(simulate: Simulate) -> None:
    made: Made = [(1, [3])]
    costs = everywhere([2, 2, 1, 9], 2, made, [0])
    semantics = Semantics("event", order="priority")
    expected = 12, [0, 0, 11, 2], [2, 2, 12, 11]
    assert scheduled(simulate, costs, made, (0, 1, 0, 0), semantics) == expected


@BOTH
def test_what_lower_devices_finish_at_a_moment_is_sent_first(simulate: Simulate) -> None:
    made: Made = [(0, [2]), (1, [3])]
    costs = everywhere([2, 2, 1, 1], 3, made, [3, 4])
    semantics = Semantics("event", contention="dest")
    expected = 10, [0, 0, 9, 6], [2, 2, 10, 7]
    assert scheduled(simulate, costs, made, (1, 0, 2, 2), semantics) == expected


@BOTH
def test_arrivals_of_a_moment_precede_what_finishes_then(simulate: Simulate) -> None:
    made: Made = [(0, [2]), (1, [3])]
    costs = everywhere([1, 2, 1, 1], 2, made, [1, 0])
    expected = 4, [0, 0, 2, 3], [1, 2, 3, 4]
    assert scheduled(simulate, costs, made, (1, 0, 0, 0), Semantics("event")) == expected


@BOTH
@pytest.mark.parametrize(("schedule", "start"), [("event", [0, 5, 0]), ("list", [0, 5, 6])])
def test_only_a_list_schedule_makes_a_later_operator_wait(
    simulate: Simulate, schedule: str, start: Times
) -> None:
    costs = everywhere([5, 1, 1], 2, PAIR, [0])
    finish = [start[0] + 5, start[1] + 1, start[2] + 1]
    result = scheduled(simulate, costs, PAIR, (0, 1, 1), Semantics(schedule))
    assert result == (max(finish), start, finish)


CHAIN: Made = [(0, [1]), (1, [2])]


@pytest.mark.parametrize(("on", "peaks"), [((0, 0, 0, 0), [2000, 0]), ((0, 1, 0, 1), [1000, 1000])])
def test_memory_released_at_a_moment_can_be_taken_then(
    on: tuple[int, ...], peaks: list[int]
) -> None:
    made: Made = [*CHAIN, (2, [3])]
    units = grouped(made_graph(4, made), np.arange(4))
    costs = everywhere([1, 1, 1, 1], 2, made, [0, 0, 0])
    simulator = Simulator(units, costs, Semantics("event", memory="outputs"))
    # each tensor of 1000 bytes lives while its maker and its reader run
    assert simulator.output_bytes(np.array(on, dtype=np.uint8)).tolist() == peaks


CALLS = Semantics("calls")


@BOTH
def test_an_accelerator_that_is_entered_again_is_called_again(simulate: Simulate) -> None:
    costs = everywhere([1, 2, 3], 2, CHAIN, [4, 5], host=[True, False])
    expected = 15, [0, 5, 7], [5, 7, 15]
    assert scheduled(simulate, costs, CHAIN, (1, 0, 1), CALLS) == expected


@BOTH
def test_a_call_is_all_that_its_accelerator_can_do_at_once(simulate: Simulate) -> None:
    costs = everywhere([1, 2, 3], 2, PAIR, [4], host=[True, False])
    expected = 10, [0, 8, 0], [8, 10, 8]
    assert scheduled(simulate, costs, PAIR, (1, 0, 1), CALLS) == expected


@BOTH
def test_the_hosts_operators_run_side_by_side(simulate: Simulate) -> None:
    costs = everywhere([1, 2, 3], 2, PAIR, [4], host=[True, False])
    assert scheduled(simulate, costs, PAIR, (0, 0, 0), CALLS) == (3, [0, 1, 0], [1, 3, 3])


@BOTH
def test_calls_in_a_circle_end_where_the_device_changes(simulate: Simulate) -> None:
    costs = everywhere([1, 1, 1, 1], 3, TWO_PAIRS, [2, 2], host=[True, False, False])
    expected = 6, [0, 3, 0, 3], [3, 6, 3, 6]
    assert scheduled(simulate, costs, TWO_PAIRS, (1, 2, 2, 1), CALLS) == expected


@BOTH
def test_operators_of_a_unit_run_apart_around_another_unit(simulate: Simulate) -> None:
    units = grouped(made_graph(3, CHAIN), ints([0, 1, 0]))
    costs = everywhere([1, 1, 1], 2, CHAIN, [2, 2])
    simulator: Any = simulate(units, costs, Semantics("event"))
    latency, start, finish = simulator.schedule(np.array([0, 1], dtype=np.uint8))
    assert (latency, list(start), list(finish)) == (7, [0, 3, 6], [1, 4, 7])
