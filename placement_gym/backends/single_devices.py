"""Measurements of every device alone, with which placements are compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from placement_gym.backends.protocol import Backend, Measurement


@dataclass(frozen=True)
class SingleDeviceResults:
    """Measurements of every device alone.

    Attributes:
        measurements: (n_devices,) each device alone, memory limits ignored; None if it does not
            support the model.
        feasible: (n_devices,) whether the model also fits into its memory.
    """

    measurements: tuple[Measurement | None, ...]
    feasible: tuple[bool, ...]

    @classmethod
    def from_backend(cls, backend: Backend) -> SingleDeviceResults:
        """Evaluate every device that supports the whole model."""
        problem = backend.problem
        assignments = [problem.single(device) for device in range(len(problem.devices))]
        return cls(
            tuple(
                backend.evaluate_ignoring_limits(assignment) if problem.runs_all[device] else None
                for device, assignment in enumerate(assignments)
            ),
            tuple(not backend.infeasibility(assignment) for assignment in assignments),
        )

    def best(self, limited: bool = True) -> int | None:
        """The fastest device; ``limited=False`` ignores memory limits."""
        speeds = self.speedups(limited)
        return max(speeds, key=speeds.__getitem__, default=None)

    def speedups(self, limited: bool = True) -> dict[int, float]:
        """Device -> speed-up, of each that may run the model alone."""
        return {
            device: m.speedup
            for device, m in enumerate(self.measurements)
            if m is not None and m.feasible and (self.feasible[device] or not limited)
        }

    def of_device(self, device: int) -> Measurement:
        """The measurement of a device that runs the whole model."""
        measurement = self.measurements[device]
        assert measurement is not None
        return measurement

    @cached_property
    def best_speedups(self) -> tuple[float, float]:
        """Speed-up of the fastest device, within memory limits and without them."""
        return self.fastest().speedup, self.fastest(limited=False).speedup

    @cached_property
    def warning(self) -> str:
        """The first warning; empty if all measurements are reliable."""
        return next((m.warning for m in self.measurements if m is not None and m.warning), "")

    def fastest(self, limited: bool = True) -> Measurement:
        """The measurement of ``best``, or a failed one if no device may run alone."""
        device = self.best(limited)
        if device is not None:
            return self.of_device(device)
        other = next(m for m in self.measurements if m is not None)
        return Measurement.failed("no single device may run the model", other.reference_ms)
