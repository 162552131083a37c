"""The simulated latencies in plain Python: what the kernels are tested and timed against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import NamedTuple

import numpy as np

from placement_gym.base import IntArray
from placement_gym.graph import (
    FOLLOWERS,
    OpGraph,
    Units,
    acyclic_submodels,
    pipeline_stages,
    submodel_devices,
)
from placement_gym.problem.costs import CostTable, Semantics

Schedule = tuple[float, list[float], list[float]]
Call = tuple[int, int]


class Transfer(NamedTuple):
    """A tensor on its way to another device.

    Attributes:
        source: Device that sends it.
        target: Device that receives it; of several, the first.
        ms: How long it takes.
        readers: Operators that read what arrives.
    """

    source: int
    target: int
    ms: float
    readers: list[int]


class Oracle:
    """What placements of some units cost under a cost table and given semantics.

    Args:
        units: The units that placements place; their operators are what is scheduled.
        costs: Of the units' operator graph.
        semantics: What the latency means.
    """

    def __init__(self, units: Units, costs: CostTable, semantics: Semantics) -> None:
        tensors, types = units.graph.tensors, units.graph.types
        placed = [kind not in FOLLOWERS for kind in types]
        self.units = units
        self.costs = costs
        self.semantics = semantics
        self.n_devices = len(costs.devices)
        self.unit: list[int] = units.of_operator.tolist()
        self.ms: list[list[float]] = costs.operator_ms.tolist()
        self.transfer_ms: list[list[list[float]]] = costs.transfer_ms.tolist()
        self.boundary_ms: list[list[float]] = costs.boundary_ms.tolist()
        self.host: list[bool] = costs.host.tolist()
        self.counts_submodels = bool(costs.submodel_ms.any())
        self.source: list[int] = tensors.source.tolist()
        spans = pairwise(tensors.offsets.tolist())
        self.readers: list[list[int]] = [
            [r for r in tensors.readers[begin:end].tolist() if placed[source] and placed[r]]
            for source, (begin, end) in zip(self.source, spans, strict=True)
        ]
        self.made: list[list[int]] = [[] for _ in self.ms]
        self.read: list[list[int]] = [[] for _ in self.ms]
        for tensor, source in enumerate(self.source):
            self.made[source].append(tensor)
            for reader in self.readers[tensor]:
                self.read[reader].append(tensor)
        self.producers = [[self.source[tensor] for tensor in tensors] for tensors in self.read]
        self.rank = self.upward_rank() if semantics.order == "priority" else []

    def upward_rank(self) -> list[float]:
        """The longest mean time from the start of each operator to an end of the graph."""
        pairs = max(self.n_devices * (self.n_devices - 1), 1)
        mean_ms = self.costs.operator_ms.mean(axis=1).tolist()
        mean_transfer_ms = (self.costs.transfer_ms.sum(axis=(1, 2)) / pairs).tolist()
        rank = [0.0] * len(self.ms)
        for operator in reversed(range(len(rank))):
            remaining = [
                mean_transfer_ms[tensor] + rank[reader]
                for tensor in self.made[operator]
                for reader in self.readers[tensor]
            ]
            rank[operator] = mean_ms[operator] + max(remaining, default=0.0)
        return rank

    def latency_ms(self, placement: Sequence[int]) -> float:
        """The latency of one placement, the device of each unit."""
        if self.semantics.schedule == "serial":
            return self.serial(self.devices_of(placement))
        if self.semantics.schedule == "load":
            return max(self.loads(self.devices_of(placement)))
        return self.schedule(placement)[0]

    def schedule(self, placement: Sequence[int]) -> Schedule:
        """Latency, start and finish of each operator: schedules event, list and calls."""
        on = self.devices_of(placement)
        if self.semantics.schedule == "event":
            return EventRun(self, on).run()
        if self.semantics.schedule == "list":
            return Run(self, on).run()
        return self.calls(on)

    def devices_of(self, placement: Sequence[int]) -> list[int]:
        """The device of each operator."""
        return [placement[unit] for unit in self.unit]

    def serial(self, on: list[int]) -> float:
        """One operator or transfer at a time, and a cost for each submodel."""
        total = 0.0
        for operator, here in enumerate(on):
            total += self.ms[operator][here]
            for tensor in self.made[operator]:
                for there in sorted({on[reader] for reader in self.readers[tensor]} - {here}):
                    total += self.transfer_ms[tensor][here][there]
        return total + self.submodel_ms(on) if self.counts_submodels else total

    def submodel_ms(self, on: list[int]) -> float:
        """What the submodels cost."""
        devices = np.array(on, dtype=np.int64)
        submodels = acyclic_submodels(self.units.graph, devices)
        placed = submodel_devices(self.units.graph, devices, submodels)
        return float(np.bincount(placed, minlength=self.n_devices) @ self.costs.submodel_ms)

    def loads(self, on: list[int]) -> list[float]:
        """The load of each device: its operators, the tensors it sends or receives, its stages."""
        loads = [0.0] * self.n_devices
        for operator, here in enumerate(on):
            loads[here] += self.ms[operator][here]
        for operator, here in enumerate(on):
            for tensor in self.made[operator]:
                elsewhere = {on[reader] for reader in self.readers[tensor]} - {here}
                if elsewhere:
                    for device in (here, *elsewhere):
                        loads[device] += self.boundary_ms[tensor][device]
        stages = count_stages(self.units.graph, np.array(on, dtype=np.int64), self.n_devices)
        return (np.array(loads) + stages * self.costs.submodel_ms).tolist()

    def transfers(self, tensor: int, on: list[int]) -> list[Transfer]:
        """The transfers of a tensor, in the order in which they are posted."""
        here = on[self.source[tensor]]
        ms = self.transfer_ms[tensor][here]
        remote = [reader for reader in self.readers[tensor] if on[reader] != here]
        if self.semantics.transfer == "edge":
            return [Transfer(here, on[r], ms[on[r]], [r]) for r in remote]
        if self.semantics.transfer == "output":
            slowest = max((ms[on[reader]] for reader in remote), default=0.0)
            return [Transfer(here, on[remote[0]], slowest, remote)] if remote else []
        readers_on: dict[int, list[int]] = {}
        for reader in remote:
            readers_on.setdefault(on[reader], []).append(reader)
        return [Transfer(here, there, ms[there], rs) for there, rs in readers_on.items()]

    def calls(self, on: list[int]) -> Schedule:
        """Accelerators are called like functions, a piece of the graph at a time."""
        try:
            return self.run_calls(list(zip(on, self.entries(on), strict=True)))
        except CycleError:
            return self.run_calls(list(zip(on, self.changes(on), strict=True)))

    def entries(self, on: list[int]) -> list[int]:
        """How often the worst path to each operator enters its device."""
        worst: list[list[int]] = []
        for producers, here in zip(self.producers, on, strict=True):
            entered = [0] * self.n_devices
            entered[here] = 1
            for producer in producers:
                for device, before in enumerate(worst[producer]):
                    enters = device == here != on[producer]
                    entered[device] = max(entered[device], before + enters)
            worst.append(entered)
        return [entered[here] for entered, here in zip(worst, on, strict=True)]

    def changes(self, on: list[int]) -> list[int]:
        """The most changes of device on a path to each operator."""
        most: list[int] = []
        for producers, here in zip(self.producers, on, strict=True):
            reached = [most[producer] + (on[producer] != here) for producer in producers]
            most.append(max(reached, default=0))
        return most

    def run_calls(self, pieces: list[tuple[int, int]]) -> Schedule:
        """Run calls, given the device and the piece of each operator.

        Raises:
            CycleError: Calls wait for each other in a circle.
        """
        call_of: list[Call] = [
            (device, operator if self.host[device] else piece)
            for operator, (device, piece) in enumerate(pieces)
        ]
        members: defaultdict[Call, list[int]] = defaultdict(list)
        for operator, call in enumerate(call_of):
            members[call].append(operator)
        awaited: dict[Call, set[Call]] = {call: set() for call in members}
        for operator, call in enumerate(call_of):
            awaited[call] |= {call_of[p] for p in self.producers[operator]} - {call}
        for before, after in pairwise(sorted(members)):
            if before[0] == after[0] and not self.host[after[0]]:
                awaited[after].add(before)
        start: dict[Call, float] = {}
        finish: dict[Call, float] = {}
        for call in TopologicalSorter(awaited).static_order():
            start[call] = max((finish[earlier] for earlier in awaited[call]), default=0.0)
            finish[call] = start[call] + self.call_ms(call, members[call], call_of)
        latency = max(finish.values())
        return latency, [start[call] for call in call_of], [finish[call] for call in call_of]

    def call_ms(self, call: Call, members: list[int], call_of: list[Call]) -> float:
        """How long a call takes, with every tensor that crosses its boundary."""
        device = call[0]
        read = {tensor for operator in members for tensor in self.read[operator]}
        made = {tensor for operator in members for tensor in self.made[operator]}
        crossing = read - made
        crossing |= {t for t in made if any(call_of[r] != call for r in self.readers[t])}
        working = sum(self.ms[operator][device] for operator in members)
        return working + sum(self.boundary_ms[tensor][device] for tensor in sorted(crossing))


class Run:
    """One placement's list schedule, and what an event schedule has in common with it."""

    def __init__(self, oracle: Oracle, on: list[int]) -> None:
        axes = oracle.semantics
        self.oracle = oracle
        self.on = on
        self.contention = axes.contention
        self.op_gap_ms = axes.op_gap_ms
        self.link_gap_ms = axes.link_gap_ms
        self.by_rank = axes.order == "priority"
        self.start = [0.0] * len(on)
        self.finish = [0.0] * len(on)
        self.device_free = [0.0] * oracle.n_devices
        n_channels = {"none": 1, "link": oracle.n_devices**2}
        self.n_channels = n_channels.get(axes.contention, oracle.n_devices)
        self.channel_free = [0.0] * self.n_channels

    def run(self) -> Schedule:
        """Run all operators, one after another as far as each device is concerned."""
        oracle, on = self.oracle, self.on
        sequence = list(range(len(on)))
        if self.by_rank:
            sequence.sort(key=lambda operator: -oracle.rank[operator])
        arrived = [0.0] * len(on)
        for operator in sequence:
            finish = self.operate(operator, arrived[operator])
            for tensor in oracle.made[operator]:
                for reader in oracle.readers[tensor]:
                    if on[reader] == on[operator]:
                        arrived[reader] = max(arrived[reader], finish)
                for transfer in oracle.transfers(tensor, on):
                    arrival, _ = self.send(transfer, finish)
                    for reader in transfer.readers:
                        arrived[reader] = max(arrived[reader], arrival)
        return self.result()

    def result(self) -> Schedule:
        latency = max(max(self.device_free), max(self.channel_free))
        return latency, self.start, self.finish

    def operate(self, operator: int, ready: float) -> float:
        """Book an operator's time on its device; returns its finish."""
        device = self.on[operator]
        start = max(ready, self.device_free[device])
        finish = start + self.oracle.ms[operator][device]
        self.start[operator], self.finish[operator] = start, finish
        self.device_free[device] = finish + self.op_gap_ms
        return finish

    def send(self, transfer: Transfer, now: float) -> tuple[float, int]:
        """Book a transfer's time on its channels; returns its arrival and the last channel."""
        begin, channel = now, 0
        for channel in self.route(transfer):
            begin = max(begin, self.channel_free[channel])
            self.channel_free[channel] = begin + transfer.ms + self.link_gap_ms
        return begin + transfer.ms, channel

    def route(self, transfer: Transfer) -> tuple[int, ...]:
        """The channels that a transfer passes."""
        ends = transfer.source, transfer.target
        if self.contention == "link":
            return (min(ends) * self.oracle.n_devices + max(ends),)
        routes = {"none": (), "source": ends[:1], "dest": ends[1:], "both": ends}
        return routes[self.contention]


class EventRun(Run):
    """One placement's event schedule.

    An event is a time, a server, a serial number, the operator that finishes there or -1, and the
    operators that a tensor reaches then.
    """

    def __init__(self, oracle: Oracle, on: list[int]) -> None:
        super().__init__(oracle, on)
        self.events: list[tuple[float, int, int, int, list[int]]] = []
        self.serial = count()
        self.missing = [len(tensors) for tensors in oracle.read]
        self.ready: list[list[tuple[float, int]]] = [[] for _ in self.device_free]

    def run(self) -> Schedule:
        """Process events until none is left."""
        for operator, missing in enumerate(self.missing):
            if not missing:
                self.enqueue(operator, 0.0)
        self.choose(0.0)
        while self.events:
            now, _, _, operator, readers = heappop(self.events)
            if operator >= 0:
                self.complete(operator, now)
            self.deliver(readers, now)
            if self.by_rank and (not self.events or self.events[0][0] > now):
                self.choose(now)
        return self.result()

    def add_event(self, time: float, server: int, operator: int, readers: list[int]) -> None:
        heappush(self.events, (time, server, next(self.serial), operator, readers))

    def complete(self, operator: int, now: float) -> None:
        """Pass an operator's tensors on."""
        oracle, on = self.oracle, self.on
        for tensor in oracle.made[operator]:
            self.deliver([r for r in oracle.readers[tensor] if on[r] == on[operator]], now)
            for transfer in oracle.transfers(tensor, on):
                arrival, channel = self.send(transfer, now)
                self.add_event(arrival, channel, -1, transfer.readers)

    def deliver(self, readers: list[int], now: float) -> None:
        """Let a tensor arrive at operators that read it."""
        for reader in readers:
            self.missing[reader] -= 1
            if not self.missing[reader]:
                self.enqueue(reader, now)

    def enqueue(self, operator: int, now: float) -> None:
        """Let an operator wait for its device, which serves it in turn or chooses by rank."""
        if self.by_rank:
            heappush(self.ready[self.on[operator]], (-self.oracle.rank[operator], operator))
        else:
            self.begin(operator, now)

    def begin(self, operator: int, now: float) -> None:
        server = self.n_channels + self.on[operator]
        self.add_event(self.operate(operator, now), server, operator, [])

    def choose(self, now: float) -> None:
        """Let each free device start its best operator, and wake it up when it is free again."""
        for device, ready in enumerate(self.ready):
            if ready and self.device_free[device] <= now:
                self.begin(heappop(ready)[1], now)
                self.add_event(self.device_free[device], self.n_channels + device, -1, [])


def count_stages(graph: OpGraph, devices: IntArray, n_devices: int) -> IntArray:
    """(n_devices,) inferences of stages on each device in a request, or a round of a union."""
    stages = pipeline_stages(graph, devices)
    rates = submodel_devices(graph, graph.rates[graph.model_of], stages)
    on = submodel_devices(graph, devices, stages)
    return np.bincount(on, rates, n_devices).astype(np.int64)
