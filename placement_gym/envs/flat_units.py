"""Observations of one unit in a few numbers for each device, as stock policies learn from."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import Float32Array, FloatArray, IntArray
from placement_gym.solvers.tasks import Tasks

COLUMNS = ("own", "incoming", "outgoing", "total", "near", "finish", "producer", "memory")
"""What an observation has of each device, in its order; ``PerUnitEnv`` says what they mean."""
OWN, INCOMING, OUTGOING, TOTAL, NEAR, FINISH, PRODUCER, MEMORY = range(len(COLUMNS))
TIMES = slice(OWN, FINISH + 1)
FINENESS = 10.0
"""Times are seen in tenths of a mean unit's: ours, so that a median saving is seen as about one."""
FULL = 2.0
"""Largest share of a limit that is seen, and that of devices that cannot run the unit."""


class FlatUnits:
    """Observes the current unit of a placement that is made unit by unit.

    Args:
        twin: The problem, costs and schedule.
        single: The device that times are compared with.
        n_devices: Padded number of devices.
    """

    def __init__(self, twin: SimulatedBackend, single: int, n_devices: int) -> None:
        self.problem, self.single, self.n_devices = twin.problem, single, n_devices
        self.schedule = twin.semantics.schedule
        tasks = Tasks.of_units(self.problem.units, twin.costs)
        supported = self.problem.supported
        # All times are in `FINENESS` parts of a mean unit's.
        scale_ms = float(tasks.ms[supported].mean()) / FINENESS or 1.0
        self.own = np.where(supported, tasks.ms, 0.0) / scale_ms
        self.transfer, self.maker = tasks.transfer_ms / scale_ms, tasks.tensors.source
        # The tensors that each unit reads, their makers, and those that it makes for others.
        tensor, _, reader = tasks.readings
        units, made = range(self.problem.n_units), np.unique(tensor)
        self.reads = [tensor[reader == unit] for unit in units]
        self.makers = [self.maker[tensors] for tensors in self.reads]
        self.makes = [made[self.maker[made] == unit] for unit in units]
        # What no decision changes: (n_units, columns, devices).
        self.fixed = np.zeros((len(units), len(COLUMNS), supported.shape[1]))
        out = np.array([self.transfer[made, :, single].sum(axis=0) for made in self.makes])
        self.fixed[:, OUTGOING], self.fixed[:, TOTAL] = out, self.own + out
        self.fixed[:, OWN] = self.fixed[:, NEAR] = self.own
        compared = self.fixed[:, [OWN, TOTAL, NEAR]]
        self.fixed[:, [OWN, TOTAL, NEAR]] = compared - compared[..., single, None]
        self.limit_bytes = np.maximum(self.problem.limits_bytes, 1.0)  # infinite: never full
        self.begin(self.problem.single(single))

    def space(self) -> spaces.Box:
        """The space of observations, (len(COLUMNS) * n_devices,)."""
        low = np.full((len(COLUMNS), self.n_devices), -np.inf, dtype=np.float32)
        high = np.full_like(low, np.inf)
        low[[INCOMING, OUTGOING, PRODUCER, MEMORY]] = 0.0
        high[PRODUCER], high[MEMORY] = 1.0, FULL
        return spaces.Box(low.ravel(), high.ravel(), dtype=np.float32)

    def begin(self, assignment: IntArray) -> None:
        """Start with (n_units,) devices of units that have not been placed yet."""
        n_tensors, n_devices = len(self.maker), self.own.shape[1]
        self.device = assignment.copy()
        self.there = np.zeros((n_tensors, n_devices), dtype=np.bool_)
        self.there[np.arange(n_tensors), assignment[self.maker]] = True
        self.used_bytes, self.free = np.zeros(n_devices), np.zeros(n_devices)
        self.finish = np.zeros(len(self.own))

    def place(self, unit: int, device: int) -> None:
        """Place a unit."""
        if self.schedule != "serial":
            self.finish[unit] = self.free[device] = self.compute_finish(unit)[device]
        self.device[unit] = device
        # Its inputs are there now, for later readers too; what it makes is there alone.
        self.there[self.reads[unit], device] = True
        self.there[self.makes[unit]] = False
        self.there[self.makes[unit], device] = True
        if self.problem.limited:
            self.used_bytes += self.problem.memory.shared[device] * self.problem.unit_bytes[unit]

    def compute_incoming(self, unit: int) -> FloatArray:
        """(devices,) transfers of the inputs that no earlier reader has brought there."""
        tensors = self.reads[unit]
        moves = self.transfer[tensors, self.device[self.makers[unit]]]
        incoming: FloatArray = (moves * ~self.there[tensors]).sum(axis=0)
        return incoming

    def compute_finish(self, unit: int) -> FloatArray:
        """(devices,) the unit's end, after all units that have been placed there."""
        if self.schedule == "load":  # no device waits, and transfers to it count as its work
            return self.free + self.own[unit] + self.compute_incoming(unit)
        makers = self.makers[unit]
        arrivals = self.finish[makers, None] + self.transfer[self.reads[unit], self.device[makers]]
        finish: FloatArray = np.maximum(self.free, arrivals.max(axis=0, initial=0.0))
        return finish + self.own[unit]

    def observe(self, unit: int) -> Float32Array:
        """(len(COLUMNS) * n_devices,) the columns of all devices for a unit."""
        seen, single = self.fixed[unit].copy(), self.single
        seen[INCOMING] = incoming = self.compute_incoming(unit)
        seen[TOTAL : NEAR + 1] += incoming - incoming[single]
        if self.schedule != "serial":
            finish = self.compute_finish(unit)
            seen[FINISH] = finish - finish[single]
        seen[TIMES] = np.arcsinh(seen[TIMES])
        seen[PRODUCER, self.device[self.makers[unit]]] = 1.0
        if self.problem.limited:
            taken = (self.used_bytes + self.problem.unit_bytes[unit]) / self.limit_bytes
            seen[MEMORY] = np.minimum(taken, FULL)
        seen[MEMORY, ~self.problem.supported[unit]] = FULL
        if seen.shape[1] < self.n_devices:
            seen = np.pad(seen, [(0, 0), (0, self.n_devices - seen.shape[1])])
        return seen.ravel().astype(np.float32)
