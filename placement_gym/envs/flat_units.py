"""Observations of one unit in a few numbers for each device, as stock policies learn from."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import Float32Array, FloatArray, IntArray
from placement_gym.solvers.tasks import Tasks

COLUMNS = ("own", "incoming", "outgoing", "total", "near", "producer", "memory", "finish")
"""What an observation has of each device, in its order; ``PerUnitEnv`` says what they mean."""
OWN, INCOMING, OUTGOING, TOTAL, NEAR, PRODUCER, MEMORY, FINISH = range(len(COLUMNS))
TIMES = [OWN, INCOMING, OUTGOING, TOTAL, NEAR, FINISH]
FINENESS = 10.0
"""Times are seen in tenths of a mean unit's: ours, so that a median saving is seen as about one."""
FULL = 2.0
"""Largest share of a limit that is seen, and that of devices that cannot run the unit."""
ADDITIVE = ("serial", "load")
"""Schedules without times at which devices are ready."""


class FlatUnits:
    """Observes the current unit of a placement that is made unit by unit.

    Args:
        twin: The problem, costs and schedule.
        single: The device that times are compared with, and where units yet to be placed will go.
        n_devices: Padded number of devices.
    """

    def __init__(self, twin: SimulatedBackend, single: int, n_devices: int) -> None:
        self.problem, self.single, self.n_devices = twin.problem, single, n_devices
        self.schedule = twin.semantics.schedule
        tasks = Tasks.of_units(self.problem.units, twin.costs)
        supported, self.present = self.problem.supported, len(self.problem.devices)
        self.own_ms = np.where(supported, tasks.ms, 0.0)
        self.scale_ms = float(tasks.ms[supported].mean()) / FINENESS or 1.0
        self.transfer_ms, self.maker = tasks.transfer_ms, tasks.tensors.source
        # The tensors that each unit reads and makes; those that nobody reads move nowhere.
        tensor, _, reader = tasks.readings
        units = range(self.problem.n_units)
        self.reads = [tensor[reader == unit] for unit in units]
        made = np.unique(tensor)
        self.makes = [made[self.maker[made] == unit] for unit in units]
        self.out_ms = np.array(
            [self.transfer_ms[made][:, :, single].sum(axis=0) for made in self.makes]
        )
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
        self.device = assignment.copy()
        self.there = np.zeros((len(self.maker), self.present), dtype=np.bool_)
        self.there[np.arange(len(self.maker)), assignment[self.maker]] = True
        self.used_bytes = np.zeros(self.present)
        self.finish_ms = np.zeros(self.problem.n_units)
        self.free_ms = np.zeros(self.present)

    def place(self, unit: int, device: int) -> None:
        """Place a unit."""
        incoming, finish = self.incoming_ms(unit), self.compute_finish(unit)[device]
        self.device[unit] = device
        # Its inputs are there now, for later readers on this device too; its outputs are there
        # alone.
        self.there[self.reads[unit], device] = True
        self.there[self.makes[unit]] = False
        self.there[self.makes[unit], device] = True
        self.used_bytes += self.problem.memory.shared[device] * self.problem.unit_bytes[unit]
        self.finish_ms[unit] = self.free_ms[device] = finish
        if self.schedule == "load":
            self.free_ms[device] += incoming[device]

    def incoming_ms(self, unit: int) -> FloatArray:
        """(devices,) transfers of the inputs that no earlier reader has brought there."""
        tensors = self.reads[unit]
        moves = self.transfer_ms[tensors, self.device[self.maker[tensors]]]
        incoming: FloatArray = (moves * ~self.there[tensors]).sum(axis=0)
        return incoming

    def compute_finish(self, unit: int) -> FloatArray:
        """(devices,) when the unit would end, after all units that have been placed there."""
        ready = self.free_ms
        if self.schedule not in ADDITIVE and len(self.reads[unit]):
            tensors = self.reads[unit]
            makers = self.maker[tensors]
            arrival = self.finish_ms[makers, None] + self.transfer_ms[tensors, self.device[makers]]
            ready = np.maximum(ready, arrival.max(axis=0))
        finish: FloatArray = ready + self.own_ms[unit]
        return finish

    def observe(self, unit: int) -> Float32Array:
        """(len(COLUMNS) * n_devices,) what the columns say of each device for a unit."""
        seen = np.zeros((len(COLUMNS), self.n_devices))
        here, single = seen[:, : self.present], self.single
        own, incoming, outgoing = self.own_ms[unit], self.incoming_ms(unit), self.out_ms[unit]
        near = own + incoming
        total = near + outgoing
        here[OWN], here[INCOMING], here[OUTGOING] = own - own[single], incoming, outgoing
        here[TOTAL], here[NEAR] = total - total[single], near - near[single]
        if self.schedule != "serial":
            finish = self.compute_finish(unit)
            here[FINISH] = finish - finish[single]
        here[TIMES] = np.arcsinh(here[TIMES] / self.scale_ms)
        here[PRODUCER, self.device[self.maker[self.reads[unit]]]] = 1.0
        taken = (self.used_bytes + self.problem.unit_bytes[unit]) / self.limit_bytes
        here[MEMORY] = np.where(self.problem.supported[unit], np.minimum(taken, FULL), FULL)
        return seen.ravel().astype(np.float32)
