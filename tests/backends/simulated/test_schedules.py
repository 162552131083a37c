"""Schedules worked out by hand, of the kernels and of the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from by_hand import Made, cost_table, grouped, ints, made_graph
from oracle import Oracle

from placement_gym.problem.costs import CHOICES, CostTable, Semantics
from placement_gym.schedules import Simulator

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
TWO_PAIRS: Made = [(0, [1]), (2, [3])]
CHAIN: Made = [(0, [1]), (1, [2])]
SPLIT: Made = [(0, [2]), (1, [3])]
TWO_TENSORS: Made = [(0, [1]), (0, [2])]
CALLS, HOST = Semantics("calls"), {"host": [True, False]}


class Case(NamedTuple):
    """Operators of ``ms`` on every device, their tensors, where they are, and what comes of it.

    Operators finish after their time, but calls with their transfers.
    """

    ms: list[float]
    n_devices: int
    made: Made
    transfer_size: list[float]
    on: tuple[int, ...]
    semantics: Semantics
    latency: float
    start: Times
    finish: Times | None = None
    costs: dict[str, Any] = {}  # noqa: RUF012


CASES = {
    **{
        f"a reader elsewhere waits for the transfer, {schedule}": Case(
            [2, 3], 2, PAIR, [4], (0, 1), Semantics(schedule), 9, [0, 6]
        )
        for schedule in ("event", "list")
    },
    **{
        f"a device that sends receives over another channel alone, {contention}": Case(
            *([1, 1, 2, 1], 3, TWO_PAIRS, [4, 3], (0, 1, 2, 0)),
            *(Semantics("event", contention=contention), latency, [0, 5, 0, start]),
        )
        for contention, start, latency in (("both", 8, 9), ("source", 5, 6), ("dest", 5, 6))
    },
    "a link carries one transfer in either direction": Case(
        *([1, 1, 2, 1], 2, TWO_PAIRS, [4, 3], (0, 1, 1, 0)),
        *(Semantics("event", contention="link"), 9, [0, 5, 0, 8]),
    ),
    **{
        f"a device rests after each operator and the last, {schedule}, {order}": Case(
            *([1, 1], 1, PAIR, [4], (0, 0)),
            *(Semantics(schedule, order=order, op_gap_ms=0.5), 3.0, [0, 1.5]),
        )
        for schedule, order in product(("event", "list"), CHOICES["order"])
    },
    **{
        f"a link rests after each transfer and the last, {schedule}": Case(
            *([1, 1, 1], 2, TWO_TENSORS, [1, 1], (0, 1, 1)),
            *(Semantics(schedule, op_gap_ms=0.5, link_gap_ms=2), 7, [0, 2, 5]),
        )
        for schedule in ("event", "list")
    },
    "priority counts the mean transfer between two devices": Case(
        *([1, 1, 4, 3], 2, SPLIT, [0, 1], (0, 0, 0, 0)),
        *(Semantics("event", order="priority"), 9, [1, 0, 2, 6]),
        costs={"link_ms_per_size": [[0, 1], [3, 0]]},
    ),
    "a device chooses when all of the moment has arrived": Case(
        *([2, 2, 1, 9], 2, [(1, [3])], [0], (0, 1, 0, 0)),
        *(Semantics("event", order="priority"), 12, [0, 0, 11, 2]),
    ),
    "what lower devices finish at a moment is sent first": Case(
        *([2, 2, 1, 1], 3, SPLIT, [3, 4], (1, 0, 2, 2)),
        *(Semantics("event", contention="dest"), 10, [0, 0, 9, 6]),
    ),
    "arrivals of a moment precede what finishes then": Case(
        [1, 2, 1, 1], 2, SPLIT, [1, 0], (1, 0, 0, 0), Semantics("event"), 4, [0, 0, 2, 3]
    ),
    "an accelerator that is entered again is called again": Case(
        *([1, 2, 3], 2, CHAIN, [4, 5], (1, 0, 1)), *(CALLS, 15, [0, 5, 7], [5, 7, 15], HOST)
    ),
    "a call is all that its accelerator can do at once": Case(
        [1, 2, 3], 2, PAIR, [4], (1, 0, 1), CALLS, 10, [0, 8, 0], [8, 10, 8], HOST
    ),
    "the host's operators run side by side": Case(
        [1, 2, 3], 2, PAIR, [4], (0, 0, 0), CALLS, 3, [0, 1, 0], [1, 3, 3], HOST
    ),
    "calls in a circle end where the device changes": Case(
        *([1, 1, 1, 1], 3, TWO_PAIRS, [2, 2], (1, 2, 2, 1)),
        *(CALLS, 6, [0, 3, 0, 3], [3, 6, 3, 6], {"host": [True, False, False]}),
    ),
}


@BOTH
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_schedule_is_the_one_worked_out_by_hand(simulate: Simulate, case: Case) -> None:
    costs = everywhere(case.ms, case.n_devices, case.made, case.transfer_size, **case.costs)
    after = [start + ms for start, ms in zip(case.start, case.ms, strict=True)]
    expected = case.latency, case.start, case.finish or after
    assert scheduled(simulate, costs, case.made, case.on, case.semantics) == expected


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
@pytest.mark.parametrize(("schedule", "start"), [("event", [0, 5, 0]), ("list", [0, 5, 6])])
def test_only_a_list_schedule_makes_a_later_operator_wait(
    simulate: Simulate, schedule: str, start: Times
) -> None:
    costs = everywhere([5, 1, 1], 2, PAIR, [0])
    finish = [start[0] + 5, start[1] + 1, start[2] + 1]
    result = scheduled(simulate, costs, PAIR, (0, 1, 1), Semantics(schedule))
    assert result == (max(finish), start, finish)


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


@BOTH
def test_operators_of_a_unit_run_apart_around_another_unit(simulate: Simulate) -> None:
    units = grouped(made_graph(3, CHAIN), ints([0, 1, 0]))
    costs = everywhere([1, 1, 1], 2, CHAIN, [2, 2])
    simulator: Any = simulate(units, costs, Semantics("event"))
    latency, start, finish = simulator.schedule(np.array([0, 1], dtype=np.uint8))
    assert (latency, list(start), list(finish)) == (7, [0, 3, 6], [1, 4, 7])
