"""The event schedule by the kernel that its semantics need."""

from __future__ import annotations

from placement_gym.base import FloatArray, UInt8
from placement_gym.schedules.event_fifo import event_fifo, event_fifo_batch
from placement_gym.schedules.event_heap import event_heap
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
