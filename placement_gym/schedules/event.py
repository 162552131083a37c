"""The event schedule: devices and channels work in parallel, driven by events."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from placement_gym.base import FloatArray, UInt8, kernel, signed
from placement_gym.schedules.program import EDGE, NOTHING, OUTPUT, Channels, Program
from placement_gym.schedules.simulator import TimedSchedule


class EventSchedule(TimedSchedule):
    """Devices and channels work in parallel, driven by events."""

    def schedule(self, placement: UInt8) -> tuple[float, FloatArray, FloatArray]:
        simulator = self.simulator
        fixed = simulator.channels, simulator.transfer, *simulator.gaps_ms
        if self.needs_heap:
            return event_heap(simulator.program, placement, *fixed, simulator.preference)
        return event_fifo(simulator.program, placement, *fixed)

    def latencies_ms(self, placements: UInt8) -> FloatArray:
        if self.needs_heap:
            return super().latencies_ms(placements)
        simulator = self.simulator
        fixed = simulator.channels, simulator.transfer, *simulator.gaps_ms
        return event_fifo_batch(simulator.program, placements, *fixed)

    @property
    def needs_heap(self) -> bool:
        """True if events of one server may overtake each other and a heap must sort them."""
        axes = self.simulator.semantics
        return axes.contention == "none" or axes.order == "priority"


@kernel
def event_fifo(
    program: Program,
    placement: UInt8,
    channels: Channels,
    transfer: int,
    op_gap_ms: float,
    link_gap_ms: float,
) -> tuple[float, FloatArray, FloatArray]:
    """Simulate one placement; every server works first come, first served.

    Servers are channels, then devices; items are operators, then transfers, each numbered by the
    first reading that it serves. A server finishes items in the order of their arrival, so no heap
    is needed: its pending items are a sorted linked list, and the next event is the earliest head.
    ``after`` holds these lists: the successor of every item and the head of every server.
    Simultaneous events are ordered by server, those of one server by arrival.

    Inner functions are inlined. Separate kernels would take two to four times as long, because
    numba counts references to every array passed between them.

    ``placement`` is (n_units,) uint8, ``transfer`` is ``DEST``, ``EDGE`` or ``OUTPUT``, and no
    channel in ``channels.send`` is -1. Devices idle ``op_gap_ms`` after an operator, channels
    ``link_gap_ms`` after a transfer. Returns when the last of them is free, and (n_operators,)
    start and finish, in ms.
    """
    unit, ms, transfer_ms = program.unit, program.ms, program.transfer_ms
    first_tensor, first_reader = program.first_tensor, program.first_reader
    readers, n_inputs = program.readers, program.n_inputs
    n_channels, leaves, enters = channels.n, channels.send, channels.receive
    n_operators, n_devices = ms.shape
    n_servers, n_items = n_channels + n_devices, n_operators + len(readers)
    place = np.empty(n_operators, np.uint8)
    missing = np.empty(n_operators, np.int32)
    start = np.empty(n_operators)
    # An extra item that is never due ends every list, so an empty one is no special case.
    due, after = np.empty(n_items + 1), np.empty(n_items + n_servers, np.uint32)
    due[n_items] = np.inf
    tail = (n_items + np.arange(n_servers)).astype(np.uint32)
    after[n_items:] = n_items
    next_ms, free = np.full(n_servers, np.inf), np.zeros(n_servers)
    # As in `event_heap`: tensors that several readers share move once.
    sent, last = np.full(n_devices, NOTHING, np.int32), np.empty(n_devices, np.int32)
    shares = np.full(len(readers), NOTHING, np.int32)

    def append(server: int, item: int, done: float) -> None:
        due[item] = done
        after[item] = n_items
        after[tail[server]] = item
        tail[server] = item
        next_ms[server] = min(next_ms[server], done)

    def begin(operator: int, now: float) -> None:
        server = n_channels + signed(place[operator])
        start[operator] = max(now, free[server])
        done = start[operator] + ms[operator, place[operator]]
        free[server] = done + op_gap_ms
        append(server, operator, done)

    def release(reader: int, now: float) -> None:
        missing[reader] -= 1
        if missing[reader] == 0:
            begin(reader, now)

    for i in range(n_operators):
        place[i] = placement[unit[i]]
        missing[i] = n_inputs[i]
    # Nothing has happened before operators that read nothing.
    for i in range(n_operators):
        if missing[i] == 0:
            begin(i, 0.0)
    while True:
        # The earliest next event, of equal times that of the lowest server. Selects instead of
        # branches, because no processor predicts which server is next.
        server, now = 0, next_ms[0]
        for other in range(1, n_servers):
            sooner = next_ms[other] < now
            server = other if sooner else server
            now = next_ms[other] if sooner else now
        if now == np.inf:
            return free.max(), start, due[:n_operators]
        # The event leaves its server's list. The tail of an empty list is its head.
        item = after[n_items + server]
        following = after[item]
        after[n_items + server] = following
        next_ms[server] = due[following]
        tail[server] = n_items + server if following == n_items else tail[server]
        # A transfer arrives for all readers that it serves.
        if item >= n_operators:
            arrived = item - n_operators
            while arrived != NOTHING:
                release(readers[arrived], now)
                arrived = shares[arrived]
            continue
        # An operator's outputs are available on its device at once; the others queue for channels.
        here = place[item]
        for t in range(first_tensor[item], first_tensor[item + 1]):
            for r in range(first_reader[t], first_reader[t + 1]):
                reader = readers[r]
                there = place[reader]
                if there == here:
                    release(reader, now)
                    continue
                duration = transfer_ms[t, here, there]
                # "output" has one transfer for all devices: it is filed under its source.
                if transfer == OUTPUT:
                    there = here
                if transfer != EDGE:
                    if sent[there] == t:
                        shares[last[there]] = r
                        last[there] = r
                        continue
                    sent[there], last[there] = t, r
                # That one transfer lasts until the farthest reader has the tensor.
                if transfer == OUTPUT:
                    for other in range(first_reader[t], first_reader[t + 1]):
                        duration = max(duration, transfer_ms[t, here, place[readers[other]]])
                # "both" occupies the channel of the sender, then that of the receiver.
                server = leaves[here, there]
                begins = max(now, free[server])
                free[server] = begins + duration + link_gap_ms
                if enters[here, there] != NOTHING:
                    server = enters[here, there]
                    begins = max(begins, free[server])
                    free[server] = begins + duration + link_gap_ms
                append(server, n_operators + r, begins + duration)


@kernel
def event_fifo_batch(
    program: Program,
    placements: UInt8,
    channels: Channels,
    transfer: int,
    op_gap_ms: float,
    link_gap_ms: float,
) -> FloatArray:
    """(k,) makespans of (k, n_units) uint8 placements, bitwise those of ``event_fifo``."""
    makespans = np.empty(len(placements))
    for k in range(len(placements)):
        makespans[k] = event_fifo(
            program, placements[k], channels, transfer, op_gap_ms, link_gap_ms
        )[0]
    return makespans


@kernel
def event_heap(
    program: Program,
    placement: UInt8,
    channels: Channels,
    transfer: int,
    op_gap_ms: float,
    link_gap_ms: float,
    preference: FloatArray,
) -> tuple[float, FloatArray, FloatArray]:
    """Simulate one placement with a heap of events; arguments as for ``event_fifo``.

    Any contention is possible. If ``preference`` is (0,), devices work first come, first served. If
    it is (n_operators,), a free device starts the ready operator of minimum value, of equal ones
    the first, once all simultaneous events are processed.
    """
    first_tensor, first_reader = program.first_tensor, program.first_reader
    readers = program.readers
    n_operators, n_devices = program.ms.shape
    n_items, n_channels = n_operators + len(readers), channels.n
    by_rank, links_are_free = len(preference) > 0, channels.send[0, 0] == NOTHING
    place, missing = placement[program.unit], program.n_inputs.copy()
    start, finish = np.empty(n_operators), np.empty(n_operators)
    free, channel_free = np.zeros(n_devices), np.zeros(n_channels)
    # A tensor that several readers share moves once ("dest": to each device; "output": at all):
    # `sent` is the tensor that each device was sent last, `last` the latest reader of it there, and
    # `shares` links each reading to the next one that the same transfer serves.
    sent, last = np.full(n_devices, NOTHING, np.int32), np.empty(n_devices, np.int32)
    shares = np.full(len(readers), NOTHING, np.int32)
    # numba infers the type of a list from an element, which is removed.
    waiting = [[(0.0, 0)] for _ in range(n_devices)]
    for queue in waiting:
        queue.clear()
    # Ordered by time, then server, then addition, as in `event_fifo`. The first event, without an
    # item, lets devices choose once all sources are ready.
    events: list[Any] = [(0.0, 0, 0, n_items)]
    order, now = 1, 0.0

    def begin(operator: int, now: float, order: int) -> None:
        here = place[operator]
        start[operator] = max(now, free[here])
        finish[operator] = start[operator] + program.ms[operator, here]
        free[here] = finish[operator] + op_gap_ms
        # The gap delays the device, but not the readers.
        heappush(events, (finish[operator], n_channels + here, order, np.int64(operator)))

    def release(reader: int, now: float, order: int) -> None:
        missing[reader] -= 1
        if missing[reader] == 0:
            if by_rank:
                heappush(waiting[place[reader]], (preference[reader], np.int64(reader)))
            else:
                begin(reader, now, order)

    # Operators that read nothing wait for one input, which arrives at 0.
    for i in range(n_operators):
        if missing[i] == 0:
            missing[i] = 1
            release(i, now, order)
            order += 1
    while len(events) > 0:
        now, _, _, item = heappop(events)
        order += 1
        # A transfer arrives for all readers that it serves.
        if n_operators <= item < n_items:
            arrived = item - n_operators
            while arrived != NOTHING:
                release(readers[arrived], now, order)
                arrived = shares[arrived]
                order += 1
        # An operator's outputs are available on its device at once; the others queue for channels.
        elif item < n_operators:
            here = place[item]
            for t in range(first_tensor[item], first_tensor[item + 1]):
                for r in range(first_reader[t], first_reader[t + 1]):
                    reader = readers[r]
                    there = place[reader]
                    order += 1
                    if there == here:
                        release(reader, now, order)
                        continue
                    duration = program.transfer_ms[t, here, there]
                    # "output" has one transfer for all devices: it is filed under its source.
                    if transfer == OUTPUT:
                        there = here
                    if transfer != EDGE:
                        if sent[there] == t:
                            shares[last[there]] = r
                            last[there] = r
                            continue
                        sent[there], last[there] = t, r
                    # That one transfer lasts until the farthest reader has the tensor.
                    if transfer == OUTPUT:
                        for other in range(first_reader[t], first_reader[t + 1]):
                            to = place[readers[other]]
                            duration = max(duration, program.transfer_ms[t, here, to])
                    # "both" occupies the channel of the sender, then that of the receiver.
                    begins, server = now, np.int64(0)
                    if not links_are_free:
                        server = np.int64(channels.send[here, there])
                        begins = max(begins, channel_free[server])
                        channel_free[server] = begins + duration + link_gap_ms
                        if channels.receive[here, there] != NOTHING:
                            server = np.int64(channels.receive[here, there])
                            begins = max(begins, channel_free[server])
                            channel_free[server] = begins + duration + link_gap_ms
                    heappush(events, (begins + duration, server, order, np.int64(n_operators + r)))
        # A device chooses by rank among all operators that become ready at this moment.
        if by_rank and (len(events) == 0 or events[0][0] > now):
            for here in range(n_devices):
                if free[here] <= now and len(waiting[here]) > 0:
                    order += 1
                    begin(heappop(waiting[here])[1], now, order)
                    # After the gap nothing else would wake the device.
                    heappush(events, (free[here], n_channels + here, order, n_items))
    return max(free.max(), channel_free.max()), start, finish
