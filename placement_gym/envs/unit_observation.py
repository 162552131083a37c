"""Observations of ``PerUnitEnv``: the whole graph, or a few numbers for each device."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import Float32Array, FloatArray, IntArray
from placement_gym.envs.observation import Observation, Observer
from placement_gym.envs.scaling import IndexBox
from placement_gym.solvers import Tasks

COLUMNS = ("own", "incoming", "outgoing", "total", "near", "finish", "producer", "memory")
"""Numbers of an observation for each device, in order; ``PerUnitEnv`` documents them."""
OWN, INCOMING, OUTGOING, TOTAL, NEAR, FINISH, PRODUCER, MEMORY = range(len(COLUMNS))
TIMES = slice(OWN, FINISH + 1)
FINENESS = 10.0
"""Divisions of a unit's mean time. Chosen because a median saving is then about one."""
FULL = 2.0
"""Largest observed share of a limit; devices that cannot run the unit have it, too."""


def observe_unit(
    observer: Observer, assignment: IntArray, current: int, start_ms: FloatArray | None
) -> Observation:
    """Observe the graph before a unit is placed.

    Args:
        observer: The environment's observer.
        assignment: (n_units,) the placement so far, or (k, n_units) placements.
        current: The unit to place; the number of units at the end.
        start_ms: Start of each unit, shaped as ``assignment``; None without a schedule.
    """
    *several, n_units = assignment.shape
    visited = np.zeros((*several, observer.n_nodes), dtype=np.int8)
    visited[..., :current] = 1
    start = np.zeros(visited.shape, dtype=np.float32)
    if start_ms is not None:
        latest = start_ms.max(axis=-1, keepdims=True)
        start[..., :n_units] = start_ms / np.where(latest == 0.0, 1.0, latest)
    units = IndexBox(observer.n_nodes, (1,))
    observe = observer.observe_batch if several else observer.observe
    return {
        **observe(assignment, current),
        "step": units.scale(np.full((*several, 1), current)),
        "current_unit": units.scale(np.full((*several, 1), min(current, n_units - 1))),
        "visited": visited,
        "start": start,
    }


class FlatUnits:
    """Observes a few numbers for each device, of one placement or of ``...`` at once.

    Args:
        twin: The problem, costs and schedule.
        single: The device that times are compared with.
        n_devices: Padded number of devices.
    """

    def __init__(self, twin: SimulatedBackend, single: int, n_devices: int) -> None:
        self.problem, self.single, self.n_devices = twin.problem, single, n_devices
        self.schedule = twin.semantics.schedule
        tasks = Tasks.from_units(self.problem.units, twin.costs)
        supported = self.problem.supported
        # The unit of all times.
        scale_ms = float(tasks.ms[supported].mean()) / FINENESS or 1.0
        self.is_device = np.eye(supported.shape[1], dtype=np.bool_)
        self.own = np.where(supported, tasks.ms, 0.0) / scale_ms
        self.transfer, self.maker = tasks.transfer_ms / scale_ms, tasks.tensors.source
        # For each unit: the tensors that it reads, their makers, and the tensors that it makes.
        tensor, _, reader = tasks.readings
        units, made = range(self.problem.n_units), np.unique(tensor)
        self.reads = [tensor[reader == unit] for unit in units]
        self.makers = [self.maker[tensors] for tensors in self.reads]
        self.makes = [made[self.maker[made] == unit] for unit in units]
        # (n_units, columns, devices): the parts that no decision changes.
        self.fixed = np.zeros((len(units), len(COLUMNS), supported.shape[1]))
        out = np.array([self.transfer[made, :, single].sum(axis=0) for made in self.makes])
        self.fixed[:, OUTGOING], self.fixed[:, TOTAL] = out, self.own + out
        self.fixed[:, OWN] = self.fixed[:, NEAR] = self.own
        self.fixed[:, MEMORY] = np.where(supported, 0.0, FULL)
        compared = self.fixed[:, [OWN, TOTAL, NEAR]]
        self.fixed[:, [OWN, TOTAL, NEAR]] = compared - compared[..., single, None]
        self.limit_bytes = np.maximum(self.problem.limits_bytes, 1.0)  # infinite: never full
        self.begin(self.problem.single(single))

    def space(self) -> spaces.Box:
        low = np.full((len(COLUMNS), self.n_devices), -np.inf, dtype=np.float32)
        high = np.full_like(low, np.inf)
        low[[INCOMING, OUTGOING, PRODUCER, MEMORY]] = 0.0
        high[PRODUCER], high[MEMORY] = 1.0, FULL
        return spaces.Box(low.ravel(), high.ravel(), dtype=np.float32)

    def begin(self, assignment: IntArray) -> None:
        """Start with (..., n_units) devices, which hold until a unit is placed."""
        *several, n_units = assignment.shape
        self.device = assignment.copy()
        self.there = self.is_device[assignment[..., self.maker]]
        self.used_bytes, self.free = np.zeros((2, *several, self.own.shape[1]))
        self.finish = np.zeros((*several, n_units))

    def place(self, unit: int, device: IntArray) -> None:
        """Place a unit on (...) devices."""
        chosen = self.is_device[device]
        if self.schedule != "serial":
            finish = self.compute_finish(unit)
            self.free = np.where(chosen, finish, self.free)
            self.finish[..., unit] = np.where(chosen, finish, 0.0).sum(axis=-1)
        self.device[..., unit] = device
        # Its inputs are there now, also for later readers; its outputs are nowhere else.
        self.there[..., self.reads[unit], :] |= chosen[..., None, :]
        self.there[..., self.makes[unit], :] = chosen[..., None, :]
        if self.problem.limited:
            self.used_bytes += self.problem.memory.shared[device] * self.problem.unit_bytes[unit]

    def compute_incoming(self, unit: int) -> FloatArray:
        """(..., devices) transfer time of inputs that are not on the device yet."""
        tensors = self.reads[unit]
        moves = self.transfer[tensors, self.device[..., self.makers[unit]]]
        incoming: FloatArray = (moves * ~self.there[..., tensors, :]).sum(axis=-2)
        return incoming

    def compute_finish(self, unit: int) -> FloatArray:
        """(..., devices) the unit's end on each device, after the units placed there."""
        if self.schedule == "load":  # devices never wait, and receiving tensors is work
            return self.free + self.own[unit] + self.compute_incoming(unit)
        makers = self.makers[unit]
        moves = self.transfer[self.reads[unit], self.device[..., makers]]
        arrivals = self.finish[..., makers, None] + moves
        finish: FloatArray = np.maximum(self.free, arrivals.max(axis=-2, initial=0.0))
        return finish + self.own[unit]

    def observe(self, unit: int) -> Float32Array:
        """(..., len(COLUMNS) * n_devices) numbers for a unit, column by column."""
        several, single, fixed = self.device.shape[:-1], self.single, self.fixed[unit]
        seen = np.zeros((*several, len(COLUMNS), self.n_devices))
        here = seen[..., : fixed.shape[1]]  # without padding
        here[:] = fixed
        incoming = self.compute_incoming(unit)
        here[..., INCOMING, :] = incoming
        here[..., TOTAL : NEAR + 1, :] += (incoming - incoming[..., single, None])[..., None, :]
        if self.schedule != "serial":
            finish = self.compute_finish(unit)
            here[..., FINISH, :] = finish - finish[..., single, None]
        times = here[..., TIMES, :]
        np.arcsinh(times, out=times)
        here[..., PRODUCER, :] = self.is_device[self.device[..., self.makers[unit]]].any(axis=-2)
        if self.problem.limited:
            taken = (self.used_bytes + self.problem.unit_bytes[unit]) / self.limit_bytes
            supported = self.problem.supported[unit]
            here[..., MEMORY, :] = np.where(supported, np.minimum(taken, FULL), FULL)
        return seen.reshape(*several, -1).astype(np.float32)
