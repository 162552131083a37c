"""The call schedule: accelerators are called like functions (Tarnawski et al. 2020)."""

from __future__ import annotations

import numpy as np

from placement_gym.base import BoolArray, FloatArray, Int32, UInt8, kernel
from placement_gym.schedules.program import Program
from placement_gym.schedules.simulator import TimedSchedule


class CallSchedule(TimedSchedule):
    """Accelerators are called like functions."""

    def schedule(self, placement: UInt8) -> tuple[float, FloatArray, FloatArray]:
        return call_schedule(self.simulator.program, placement, self.simulator.costs.host)


@kernel
def call_schedule(
    program: Program, placement: UInt8, host: BoolArray
) -> tuple[float, FloatArray, FloatArray]:
    """Simulate one placement with accelerators called like functions and unlimited host cores.

    A device's operators are one call, unless a path leaves the device and returns: each entry then
    starts another call. If calls would wait for each other in a cycle, a call ends wherever a path
    changes devices.

    ``placement`` is (n_units,) uint8; ``host`` is (n_devices,), true if a device computes in the
    host's memory. Returns the latency, and (n_operators,) start and finish, in ms.
    """
    n_operators, n_devices = program.ms.shape
    place = np.empty(n_operators, np.uint8)
    for i in range(n_operators):
        place[i] = placement[program.unit[i]]
    start, finish = np.empty(n_operators), np.empty(n_operators)
    # One call per entry makes the fewest calls, but two can wait for each other. Calls that end at
    # every change of devices cannot: tensors lead to calls of higher levels.
    call = number_calls(place, host, count_entries(program, place), n_devices)
    if not run_calls(program, place, call, start, finish):
        call = number_calls(place, host, count_changes(program, place), n_devices)
        run_calls(program, place, call, start, finish)
    return finish.max(), start, finish


@kernel
def count_entries(program: Program, place: UInt8) -> Int32:
    """(n_operators,) maximum number of times that a path to each operator enters its device."""
    n_operators, n_devices = program.ms.shape
    entered = np.zeros((n_operators, n_devices), np.int32)
    # Entries are counted for every device, not only the operator's own: a path may come back later.
    for i in range(n_operators):
        here = place[i]
        entered[i, here] = max(entered[i, here], 1)
        for t in range(program.first_tensor[i], program.first_tensor[i + 1]):
            for r in range(program.first_reader[t], program.first_reader[t + 1]):
                reader = program.readers[r]
                for device in range(n_devices):
                    again = place[reader] == device and here != device
                    reached = entered[i, device] + again
                    entered[reader, device] = max(entered[reader, device], reached)
    own = np.empty(n_operators, np.int32)
    for i in range(n_operators):
        own[i] = entered[i, place[i]]
    return own


@kernel
def count_changes(program: Program, place: UInt8) -> Int32:
    """(n_operators,) maximum number of device changes on a path to each operator."""
    level = np.zeros(len(place), np.int32)
    for i in range(len(place)):
        for t in range(program.first_tensor[i], program.first_tensor[i + 1]):
            for r in range(program.first_reader[t], program.first_reader[t + 1]):
                reader = program.readers[r]
                level[reader] = max(level[reader], level[i] + (place[reader] != place[i]))
    return level


@kernel
def number_calls(place: UInt8, host: BoolArray, piece: Int32, n_devices: int) -> Int32:
    """(n_operators,) call of each operator, numbered by device, then ``piece``; -1 on a host."""
    n_pieces = piece.max() + 1
    used = np.full((n_devices, n_pieces), -1, np.int32)
    for i in range(len(place)):
        if not host[place[i]]:
            used[place[i], piece[i]] = 0
    n_calls = 0
    for device in range(n_devices):
        for k in range(n_pieces):
            if used[device, k] == 0:
                used[device, k] = n_calls
                n_calls += 1
    call = np.full(len(place), -1, np.int32)
    for i in range(len(place)):
        if not host[place[i]]:
            call[i] = used[place[i], piece[i]]
    return call


@kernel
def run_calls(
    program: Program,
    place: UInt8,
    call: Int32,
    start: FloatArray,
    finish: FloatArray,
) -> bool:
    """Write start and finish of every operator; return False if calls wait for each other.

    Tasks are calls, then the host's operators. A call waits for all its inputs and for its device's
    previous call, and pays once for every tensor that enters or leaves it.
    """
    n_operators, n_calls = len(place), call.max() + 1
    # Cores are unlimited: each operator of the host is a task that runs as soon as it can.
    task = np.empty(n_operators, np.int32)
    for i in range(n_operators):
        task[i] = n_calls + i if call[i] < 0 else call[i]
    n_tasks = n_calls + n_operators
    duration, ready = np.zeros(n_tasks), np.zeros(n_tasks)
    missing = np.zeros(n_tasks, np.int32)
    members = np.zeros(n_tasks, np.int32)
    device = np.full(n_tasks, -1, np.int32)
    for i in range(n_operators):
        duration[task[i]] += program.ms[i, place[i]]
        members[task[i]] += 1
        device[task[i]] = place[i]
    # A tensor that crosses a call's border is paid for once on each side, for all its readers.
    paid = np.full(n_tasks, -1, np.int32)
    for t in range(len(program.source)):
        maker = task[program.source[t]]
        for r in range(program.first_reader[t], program.first_reader[t + 1]):
            reader = task[program.readers[r]]
            if reader == maker:
                continue
            # One for each reading: each counts down once below.
            missing[reader] += 1
            if paid[reader] != t:
                paid[reader] = t
                duration[reader] += program.boundary_ms[t, device[reader]]
            if paid[maker] != t:
                paid[maker] = t
                duration[maker] += program.boundary_ms[t, device[maker]]
    # Calls are numbered by device, and each waits for the previous one as for an input.
    for k in range(1, n_calls):
        missing[k] += device[k] == device[k - 1]
    first, order = list_members(task, members)
    # Kahn's order over tasks, because calls need not be numbered topologically.
    waiting = np.empty(n_tasks, np.int32)
    n_waiting, done = 0, 0
    for k in range(n_tasks):
        if members[k] and missing[k] == 0:
            waiting[n_waiting] = k
            n_waiting += 1
    while done < n_waiting:
        k = waiting[done]
        done += 1
        end = ready[k] + duration[k]
        # The device is free for its next call.
        follower = k + 1 if k + 1 < n_calls and device[k + 1] == device[k] else -1
        if follower >= 0:
            ready[follower] = max(ready[follower], end)
            missing[follower] -= 1
            if missing[follower] == 0:
                waiting[n_waiting] = follower
                n_waiting += 1
        for position in range(first[k], first[k + 1]):
            i = order[position]
            # A call returns everything at its end, whichever operator made it.
            start[i], finish[i] = ready[k], end
            for t in range(program.first_tensor[i], program.first_tensor[i + 1]):
                for r in range(program.first_reader[t], program.first_reader[t + 1]):
                    reader = task[program.readers[r]]
                    if reader != k:
                        ready[reader] = max(ready[reader], end)
                        missing[reader] -= 1
                        if missing[reader] == 0:
                            waiting[n_waiting] = reader
                            n_waiting += 1
    # Tasks that never became ready wait for each other in a cycle.
    return done == np.count_nonzero(members)


@kernel
def list_members(task: Int32, members: Int32) -> tuple[Int32, Int32]:
    """Operators by task: (n_tasks + 1,) offsets and (n_operators,) operators."""
    first = np.zeros(len(members) + 1, np.int32)
    for k in range(len(members)):
        first[k + 1] = first[k] + members[k]
    position = first[:-1].copy()
    order = np.empty(len(task), np.int32)
    for i in range(len(task)):
        order[position[task[i]]] = i
        position[task[i]] += 1
    return first, order
