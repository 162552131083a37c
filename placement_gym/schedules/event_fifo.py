"""The event schedule: devices and channels work at the same time, first come, first served.

Servers are channels, then devices; items are operators, then transfers, each numbered by the first
reading that it serves. A server finishes items in the order in which they were added: its pending
items are a linked list sorted by time, the next event is the earliest head of a list, and no heap
is needed. ``after`` holds these lists: the successor of every item and the head of every server.

The kernel is one function with inner functions on purpose: those are inlined, while numba counts
references to every array passed between compiled functions, which is two to four times slower.
"""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, UInt8, kernel, signed
from placement_gym.schedules.program import Channels, Program

DEST, EDGE, OUTPUT = 0, 1, 2
NOTHING = -1


@kernel
def event_fifo(
    program: Program,
    placement: UInt8,
    channels: Channels,
    transfer: int,
    op_gap_ms: float,
    link_gap_ms: float,
) -> tuple[float, FloatArray, FloatArray]:
    """Simulate one placement.

    Events of equal time are ordered by server, events of one server by when they were added.

    Args:
        program: Operators, tensors and their costs.
        placement: (n_units,) uint8.
        channels: Channels of every transfer; none of them may be -1 in ``send``.
        transfer: ``DEST``, ``EDGE`` or ``OUTPUT``.
        op_gap_ms: Idle time of a device after an operator.
        link_gap_ms: Idle time of a channel after a transfer.

    Returns:
        When the last device or channel is free again, and (n_operators,) start and finish, in ms.
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
    # An extra item that is never due ends every list: an empty one needs no case.
    due, after = np.empty(n_items + 1), np.empty(n_items + n_servers, np.uint32)
    due[n_items] = np.inf
    tail = (n_items + np.arange(n_servers)).astype(np.uint32)
    after[n_items:] = n_items
    next_ms, free = np.full(n_servers, np.inf), np.zeros(n_servers)
    # As in `event_heap`: tensors that several readers share move once.
    sent, last = np.full(n_devices, NOTHING, np.int32), np.empty(n_devices, np.int32)
    shares = np.full(len(readers), NOTHING, np.int32)

    # A server finishes items in the order in which they came: the tail keeps lists sorted.
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
        # The earliest of all servers' next events; of equal times, that of the lowest server.
        # Selects, not branches: because no processor predicts which server is next.
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
        # A transfer that serves several readers on its device arrives for all of them.
        if item >= n_operators:
            arrived = item - n_operators
            while arrived != NOTHING:
                release(readers[arrived], now)
                arrived = shares[arrived]
            continue
        # A finished operator: what stays on the device is there at once, the rest queues for a
        # channel.
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
