"""When transfers run, beside the oracle's and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from by_hand import cost_table, grouped, made_graph, random_backend

from placement_gym.backends.simulated import schedule_transfers
from placement_gym.problem.costs import PRESETS, Semantics
from placement_gym.schedules import Simulator

QUEUED = {name: axes for name, axes in PRESETS.items() if axes.schedule in ("event", "list")}
QUEUED["priority"] = Semantics("event", contention="link", order="priority")
SHARED = [(0, [1, 2, 3]), (1, [3])]


@pytest.mark.parametrize("name", QUEUED)
def test_transfers_arrive_when_the_oracle_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arrivals: list[tuple[int, float]] = []
    send = oracle.Run.send

    def record(run: oracle.Run, transfer: Any, now: float) -> tuple[float, int]:
        arrival, channel = send(run, transfer, now)
        arrivals.append((transfer.source, arrival))
        return arrival, channel

    monkeypatch.setattr(oracle.Run, "send", record)
    compared = 0
    for seed in range(12):
        backend = random_backend(seed)
        units, costs = backend.problem.units, backend.costs
        n_devices = len(costs.devices)
        placement = np.random.default_rng(seed).integers(0, n_devices, len(units)).astype(np.uint8)
        simulator = Simulator(units, costs, QUEUED[name])
        found = schedule_transfers(simulator, placement, simulator.schedule(placement)[2])
        arrivals.clear()
        oracle.Oracle(units, costs, QUEUED[name]).schedule(placement.tolist())
        ends = zip(found.source.tolist(), found.finish_ms.tolist(), strict=True)
        mine = {(source, round(finish, 9)) for source, finish in ends}
        assert mine == {(source, round(arrival, 9)) for source, arrival in arrivals}
        compared += len(arrivals)
    assert compared > 12


def simulate(schedule: str) -> tuple[Simulator, np.ndarray]:
    graph = made_graph(4, SHARED)
    costs = cost_table(graph, np.full((4, 3), 2.0), [5.0, 1.0])
    placement = np.array([0, 1, 2, 1], dtype=np.uint8)
    return Simulator(grouped(graph, np.arange(4)), costs, Semantics(schedule)), placement


def test_serial_transfers_follow_their_operator_one_by_one() -> None:
    simulator, placement = simulate("serial")
    _, start, finish = simulator.schedule(placement)
    found = schedule_transfers(simulator, placement, finish)
    assert found.operator.tolist() == [0, 0]
    assert found.target.tolist() == [1, 2]
    assert found.start_ms.tolist() == [2.0, 7.0]
    assert found.finish_ms.tolist() == [7.0, 12.0]
    assert start[1] == 12.0


def test_calls_have_no_transfers_of_their_own() -> None:
    simulator, placement = simulate("calls")
    found = schedule_transfers(simulator, placement, simulator.schedule(placement)[2])
    assert len(found) == 0
    assert found.start_ms.dtype == np.float64
