"""The event schedule, by its fast kernel or by one with a heap, as its semantics need."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from placement_gym.base import FloatArray, UInt8, kernel
from placement_gym.schedules.event_fifo import EDGE, NOTHING, OUTPUT, event_fifo, event_fifo_batch
from placement_gym.schedules.program import Channels, Program
from placement_gym.schedules.simulator import TimedSchedule


class EventSchedule(TimedSchedule):
    """Devices and channels work at the same time, as events come."""

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
        """True if events of one server may overtake each other: a heap must sort them then."""
        axes = self.simulator.semantics
        return axes.contention == "none" or axes.order == "priority"


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
    """Simulate one placement with a heap of events.

    Args:
        program: As for ``event_fifo``.
        placement: As for ``event_fifo``.
        channels: As for ``event_fifo``, or those of contention ``"none"``.
        transfer: As for ``event_fifo``.
        op_gap_ms: As for ``event_fifo``.
        link_gap_ms: As for ``event_fifo``.
        preference: (0,): devices work first come, first served. (n_operators,): once all events of
            equal time are processed, a free device starts the ready operator of minimum value,
            of equal ones the first.

    Returns:
        As ``event_fifo``.
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
    # numba takes the type of a list from an element: an empty one has had one.
    waiting = [[(0.0, 0)] for _ in range(n_devices)]
    for queue in waiting:
        queue.clear()
    # Of equal times the lower server is first, then what was added first, as in `event_fifo`. The
    # first event, which has no item, lets devices choose once all sources are ready.
    events: list[Any] = [(0.0, 0, 0, n_items)]
    order, now = 1, 0.0

    def begin(operator: int, now: float, order: int) -> None:
        here = place[operator]
        start[operator] = max(now, free[here])
        finish[operator] = start[operator] + program.ms[operator, here]
        free[here] = finish[operator] + op_gap_ms
        # The gap keeps the device, but not the readers.
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
        # A transfer that serves several readers on its device arrives for all of them.
        if n_operators <= item < n_items:
            arrived = item - n_operators
            while arrived != NOTHING:
                release(readers[arrived], now, order)
                arrived = shares[arrived]
                order += 1
        # What stays on the device is there at once; what leaves it queues for a channel.
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
        # A device that chooses by rank must see all operators that become ready at this moment.
        if by_rank and (len(events) == 0 or events[0][0] > now):
            for here in range(n_devices):
                if free[here] <= now and len(waiting[here]) > 0:
                    order += 1
                    begin(heappop(waiting[here])[1], now, order)
                    # After the gap nothing else would wake the device.
                    heappush(events, (free[here], n_channels + here, order, n_items))
    return max(free.max(), channel_free.max()), start, finish
