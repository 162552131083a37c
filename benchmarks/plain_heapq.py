"""The event schedule as a short Python program: the baseline of the kernels' speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from placement_gym.costs.table import CostTable
from placement_gym.graph.operators import OpGraph


def make_plain_event(graph: OpGraph, costs: CostTable) -> Callable[[Sequence[int]], float]:
    """Make a function from operators' devices to the latency in ms under preset ``event``.

    It has no gaps and nothing else that schedules can have.
    """
    ms, transfer_ms = costs.operator_ms.tolist(), costs.transfer_ms.tolist()
    offsets, readers = graph.tensors.offsets.tolist(), graph.tensors.readers.tolist()
    made: list[list[tuple[int, list[int]]]] = [[] for _ in ms]
    inputs = [0] * len(ms)
    for t, source in enumerate(graph.tensors.source.tolist()):
        made[source].append((t, readers[offsets[t] : offsets[t + 1]]))
        for reader in made[source][-1][1]:
            inputs[reader] += 1
    n_devices = costs.operator_ms.shape[1]
    sources = [i for i, n in enumerate(inputs) if n == 0]

    def latency_ms(place: Sequence[int]) -> float:
        missing = inputs.copy()
        free, link_free = [0.0] * n_devices, [0.0] * n_devices
        events: list[tuple[float, int, int, int, list[int] | None]] = []
        order, now, ready = 0, 0.0, list(sources)
        while True:
            for i in ready:
                here = place[i]
                order += 1
                free[here] = max(now, free[here]) + ms[i][here]
                heappush(events, (free[here], n_devices + here, order, i, None))
            if not events:
                return max(*free, *link_free)
            now, _, _, item, arrived = heappop(events)
            ready = []
            if arrived is None:
                here = place[item]
                for t, reading in made[item]:
                    away: dict[int, list[int]] = {}
                    for reader in reading:
                        if place[reader] != here:
                            away.setdefault(place[reader], []).append(reader)
                            continue
                        missing[reader] -= 1
                        if not missing[reader]:
                            ready.append(reader)
                    for there, waiting in away.items():
                        order += 1
                        link_free[here] = max(now, link_free[here]) + transfer_ms[t][here][there]
                        heappush(events, (link_free[here], here, order, t, waiting))
            else:
                for reader in arrived:
                    missing[reader] -= 1
                    if not missing[reader]:
                        ready.append(reader)

    return latency_ms
