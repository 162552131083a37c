"""The list schedule: every device runs its operators in one fixed order."""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, UInt8, UInt32, kernel
from placement_gym.schedules.program import EDGE, NOTHING, OUTPUT, Channels, Program, Readings
from placement_gym.schedules.simulator import TimedSchedule
from placement_gym.schedules.sums import LANES, fill_lanes


class ListSchedule(TimedSchedule):
    """Operators run and transfers queue in one order."""

    def schedule(self, placement: UInt8) -> tuple[float, FloatArray, FloatArray]:
        simulator = self.simulator
        return list_schedule(
            simulator.program,
            placement,
            simulator.sequence,
            simulator.channels,
            simulator.transfer,
            *simulator.gaps_ms,
        )

    def latency_ms(self, placement: UInt8) -> float:
        simulator, program = self.simulator, self.simulator.program
        if not simulator.is_uncontended_list:
            return super().latency_ms(placement)
        unit, ms, transfer_ms = program.unit, program.ms, program.transfer_ms
        order, gap_ms = simulator.sequence, simulator.gaps_ms[0]
        return list_makespan(unit, ms, transfer_ms, simulator.readings, order, placement, gap_ms)

    def latencies_ms(self, placements: UInt8) -> FloatArray:
        simulator = self.simulator
        n_devices = len(simulator.costs.devices)
        if not simulator.is_uncontended_list or not fill_lanes(len(placements), n_devices):
            return super().latencies_ms(placements)
        columns, gap_ms = np.ascontiguousarray(placements.T), simulator.gaps_ms[0]
        return list_batch(
            simulator.program, columns, simulator.readings, simulator.sequence, gap_ms
        )


@kernel
def list_schedule(
    program: Program,
    placement: UInt8,
    sequence: UInt32,
    channels: Channels,
    transfer: int,
    op_gap_ms: float,
    link_gap_ms: float,
) -> tuple[float, FloatArray, FloatArray]:
    """Simulate one placement; operators run and transfers queue in one order.

    ``sequence``, (n_operators,) uint32, is that topological order; the other arguments are those of
    ``event_fifo``, with any contention. Returns when the last device or channel is free, and
    (n_operators,) start and finish, in ms.
    """
    unit, ms, transfer_ms = program.unit, program.ms, program.transfer_ms
    first_tensor, first_reader = program.first_tensor, program.first_reader
    readers, leaves, enters = program.readers, channels.send, channels.receive
    n_operators, n_devices = ms.shape
    links_are_free = leaves[0, 0] == NOTHING
    place = np.empty(n_operators, np.uint8)
    free, channel_free = np.zeros(n_devices), np.zeros(channels.n)
    start, finish = np.zeros(n_operators), np.empty(n_operators)
    # A tensor moves once to each device: all readers there wait for one arrival.
    sent, arrival = np.full(n_devices, NOTHING, np.int32), np.empty(n_devices)
    for i in range(n_operators):
        place[i] = placement[unit[i]]
    # The order is topological: an operator's inputs are known when it runs.
    for i in sequence:
        here = place[i]
        start[i] = max(start[i], free[here])
        end = start[i] + ms[i, here]
        finish[i] = end
        free[here] = end + op_gap_ms
        for t in range(first_tensor[i], first_tensor[i + 1]):
            for r in range(first_reader[t], first_reader[t + 1]):
                reader = readers[r]
                there = place[reader]
                # Outputs are available on the operator's device at once.
                if there == here:
                    start[reader] = max(start[reader], end)
                    continue
                duration = transfer_ms[t, here, there]
                # "output" has one transfer for all devices, as long as that to the farthest reader:
                # it is filed under its source.
                if transfer == OUTPUT:
                    there = here
                if transfer == EDGE or sent[there] != t:
                    sent[there] = t
                    if transfer == OUTPUT:
                        for other in range(first_reader[t], first_reader[t + 1]):
                            duration = max(duration, transfer_ms[t, here, place[readers[other]]])
                    # Transfers queue in the order of their operators, not of time.
                    begins = end
                    if not links_are_free:
                        channel = leaves[here, there]
                        begins = max(begins, channel_free[channel])
                        channel_free[channel] = begins + duration + link_gap_ms
                        channel = enters[here, there]
                        if channel != NOTHING:
                            begins = max(begins, channel_free[channel])
                            channel_free[channel] = begins + duration + link_gap_ms
                    arrival[there] = begins + duration
                start[reader] = max(start[reader], arrival[there])
    # The latency includes gaps and transfers that nothing waits for.
    return max(free.max(), channel_free.max()), start, finish


@kernel
def list_makespan(
    unit: UInt32,
    ms: FloatArray,
    transfer_ms: FloatArray,
    readings: Readings,
    sequence: UInt32,
    placement: UInt8,
    op_gap_ms: float,
) -> float:
    """The makespan of one placement, bitwise that of ``list_schedule`` without contention.

    Takes single arrays: unpacking a ``Program`` from Python takes as long as a hundred operators.
    """
    # Without contention an arrival depends on its sender alone, so no transfer is stored.
    first, tensor, producer = readings
    n_operators, n_devices = ms.shape
    finish, free = np.empty(n_operators), np.zeros(n_devices)
    place = np.empty(n_operators, np.uint8)
    for i in range(n_operators):
        place[i] = placement[unit[i]]
    for i in sequence:
        here = place[i]
        ready = free[here]
        for r in range(first[i], first[i + 1]):
            maker = producer[r]
            ready = max(ready, finish[maker] + transfer_ms[tensor[r], place[maker], here])
        finish[i] = ready + ms[i, here]
        free[here] = finish[i] + op_gap_ms
    return free.max()


@kernel
def list_batch(
    program: Program, placements: UInt8, readings: Readings, sequence: UInt32, op_gap_ms: float
) -> FloatArray:
    """(k,) makespans of (n_units, k) uint8 placements, ``LANES`` of them at a time.

    Bitwise those of ``list_schedule`` without contention and with ``DEST`` or ``EDGE`` transfers.
    Loops over pairs of devices are vectorised, unlike table look-ups: fast for two or three
    devices.
    """
    unit, ms, transfer_ms = program.unit, program.ms, program.transfer_ms
    first, tensor, producer = readings
    n_operators, n_devices = ms.shape
    k = placements.shape[1]
    makespans = np.empty(k)
    # Lanes beyond the last placement compute unused values: only loops of a fixed length are
    # vectorised.
    place = np.zeros((n_operators, LANES), np.int64)
    finish, free = np.zeros((n_operators, LANES)), np.empty((n_devices, LANES))
    ready = np.empty(LANES)
    for begin in range(0, k, LANES):
        width = min(LANES, k - begin)
        for i in range(n_operators):
            for lane in range(width):
                place[i, lane] = placements[unit[i], begin + lane]
        free[:] = 0.0
        for i in sequence:
            ready[:] = 0.0
            for r in range(first[i], first[i + 1]):
                t = tensor[r]
                maker = producer[r]
                for lane in range(LANES):
                    ready[lane] = max(ready[lane], finish[maker, lane])
                # Lanes select the scalar cost of a pair of devices: a look-up by lane would be a
                # gather, which is slower than trying all pairs of two or three devices.
                for here in range(n_devices):
                    for there in range(n_devices):
                        if here != there:
                            cost = transfer_ms[t, here, there]
                            for lane in range(LANES):
                                moves = (place[maker, lane] == here) & (place[i, lane] == there)
                                arrival = finish[maker, lane] + (cost if moves else 0.0)
                                ready[lane] = max(ready[lane], arrival)
            # For the same reason every device is tried, but only the operator's is updated.
            for device in range(n_devices):
                duration = ms[i, device]
                for lane in range(LANES):
                    done = max(ready[lane], free[device, lane]) + duration
                    mine = place[i, lane] == device
                    finish[i, lane] = done if mine else finish[i, lane]
                    free[device, lane] = done + op_gap_ms if mine else free[device, lane]
        for lane in range(width):
            makespans[begin + lane] = free[:, lane].max()
    return makespans
