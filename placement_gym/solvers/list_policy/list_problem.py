"""The arrays that a list scheduler reads of a problem, and the statistics that a policy reads."""

from __future__ import annotations

import numpy as np

from placement_gym.base import (
    BoolArray,
    Float32Array,
    FloatArray,
    Int32,
    Struct,
    UInt32,
    kernel,
    round_significant,
)
from placement_gym.problem import Problem
from placement_gym.schedules import Simulator, uint32

OVERLAP, SERIAL, LOAD = range(3)
"""Devices work in parallel; one operator or transfer at a time; the load of the busiest device."""
LEAST_BYTES = 1.0
STATISTICS = (
    *("units", "devices", "limited", "tightness", "largest", "transfer"),
    *("width", "host", "contended", "serial", "throughput"),
)
N_STATISTICS = len(STATISTICS)
LARGEST = 10.0
"""Maximum absolute value of a statistic."""
LEAST = 1e-9


class ListProblem(Struct):
    """Operators by number, units and devices."""

    kind: int  # ``OVERLAP``, ``SERIAL`` or ``LOAD``
    sequence: UInt32  # (n,) uint32 operators in the order in which they are scheduled
    unit: UInt32  # (n,) uint32 unit of each operator
    ms: FloatArray  # (n, n_devices) times
    gap_ms: float  # idle time of a device after an operator
    first: UInt32  # (n + 1,) uint32 where each operator's readings begin
    tensor: UInt32  # (n_readings,) uint32
    maker: UInt32  # (n_readings,) uint32 the operator that makes the tensor
    transfer_ms: FloatArray  # (n_tensors, n_devices, n_devices)
    boundary_ms: FloatArray  # (n_tensors, n_devices)
    send: Int32  # (n_devices, n_devices) int32 channel in which a transfer waits, or -1
    receive: Int32  # (n_devices, n_devices) int32 its second channel, or -1
    n_channels: int  # number of channels
    link_gap_ms: float  # idle time of a channel after a transfer
    each_reader: bool  # whether every reader of a tensor has its own transfer
    first_op: UInt32  # (n_units + 1,) uint32 where each unit's operators begin
    ops: UInt32  # (n,) uint32 operators by unit, in the order of ``sequence``
    unit_ms: FloatArray  # (n_units, n_devices) times
    supported: BoolArray  # (n_units, n_devices) bool
    size: FloatArray  # (n_units,) bytes
    # (n_limits, n_devices) bool, the devices whose units count against each limit
    member: BoolArray
    limit: FloatArray  # (n_limits,) bytes
    mean_ms: float  # mean time of an operator on a device
    gain_ms: float  # typical time that a byte saves on the right device
    host: int  # the reference device

    @classmethod
    def from_problem(cls, problem: Problem, simulator: Simulator) -> ListProblem:
        """Make the arrays of a problem and its simulator."""
        program, readings, axes = simulator.program, simulator.readings, simulator.semantics
        sequence, unit = simulator.sequence, program.unit
        by_unit = sequence[np.argsort(unit[sequence], kind="stable")]
        counts = np.bincount(unit, minlength=problem.n_units)
        unit_ms = np.zeros((problem.n_units, program.ms.shape[1]))
        np.add.at(unit_ms, unit, program.ms)
        limits = problem.memory.limits_bytes
        tight = np.flatnonzero(np.isfinite(limits) & axes.limits_weights)
        size = problem.unit_bytes
        return cls(
            kind={"serial": SERIAL, "load": LOAD}.get(axes.schedule, OVERLAP),
            sequence=sequence,
            unit=unit,
            ms=program.ms,
            gap_ms=simulator.gaps_ms[0],
            first=readings.first,
            tensor=readings.tensor,
            maker=readings.producer,
            transfer_ms=program.transfer_ms,
            boundary_ms=program.boundary_ms,
            send=simulator.channels.send,
            receive=simulator.channels.receive,
            n_channels=simulator.channels.n,
            link_gap_ms=simulator.gaps_ms[1],
            each_reader=axes.transfer == "edge",
            first_op=uint32(np.concatenate([[0], np.cumsum(counts)])),
            ops=by_unit,
            unit_ms=unit_ms,
            supported=np.ascontiguousarray(problem.supported),
            size=size,
            member=problem.memory.of_device == tight[:, None],
            limit=limits[tight],
            mean_ms=add_up(program.ms) / program.ms.size,
            gain_ms=add_up(np.ptp(unit_ms, axis=1)) / max(add_up(size), LEAST_BYTES),
            host=problem.reference_device,
        )


def add_up(values: FloatArray) -> float:
    """The sum of an array's values one by one: NumPy's sums differ between processors."""
    return float(np.cumsum(values.ravel())[-1]) if values.size else 0.0


def is_exact(simulator: Simulator) -> bool:
    """Return whether a list scheduler's time of a placement is the simulator's latency."""
    axes = simulator.semantics
    if axes.memory in ("lifetime", "outputs") or axes.memory_penalty_ms_per_gb is not None:
        return False
    sums = axes.schedule in ("serial", "load") and not simulator.counts_submodels
    return sums or simulator.is_uncontended_list


def compute_statistics(view: ListProblem) -> Float32Array:
    """(``N_STATISTICS``,) float32 numbers named by ``STATISTICS``, most of them from -2 to 2.

    Width is the sum of all best times over their longest path; the mean transfer is relative to the
    mean time of an operator, the host's time to the best one.
    """
    n_units, n_devices = view.unit_ms.shape
    best, hosted, transfer, longest = add_up_times(view)
    pairs = max(n_devices * (n_devices - 1) * len(view.transfer_ms), 1)
    limited = len(view.limit) > 0
    values = [
        log(n_units) / 5.5 - 1.0,
        n_devices / 4.0 - 1.0,
        float(limited),
        min(add_up(view.size) / max(add_up(view.limit), 1.0), 2.0) - 0.5 if limited else -0.5,
        min(view.size.max() / max(view.limit.min(), 1.0), 1.0) if limited else 0.0,
        log(transfer / pairs / max(view.mean_ms, LEAST)) / 3.0,
        log(best / max(longest, LEAST)) / 2.0 - 0.5,
        log(hosted / max(best, LEAST)) / 3.0,
        float(view.send[0, 0] >= 0 and view.kind not in (SERIAL, LOAD)),
        float(view.kind == SERIAL),
        float(view.kind == LOAD),
    ]
    clipped = np.clip(values, -LARGEST, LARGEST)
    return round_significant(clipped, 6).astype(np.float32)


def log(value: float) -> float:
    """The logarithm, also of zero."""
    return float(np.log(max(value, LEAST)))


@kernel
def add_up_times(view: ListProblem) -> tuple[float, float, float, float]:
    """Sums in ms, all in order, so they are equal on every processor.

    The units' best times, their times on the host, all transfers, and the best times on the longest
    path of operators.
    """
    best = hosted = transfer = longest = 0.0
    for times in view.unit_ms:
        best += times.min()
        hosted += times[view.host]
    for time in view.transfer_ms.flat:
        transfer += time

    finish = np.empty(len(view.ms))
    for i in view.sequence:
        ready = 0.0
        for r in range(view.first[i], view.first[i + 1]):
            ready = max(ready, finish[view.maker[r]])
        finish[i] = ready + view.ms[i].min()
        longest = max(longest, finish[i])
    return best, hosted, transfer, longest
