"""A device's engine in a process of its own: a crash ends the stage that it runs, and no more."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from placement_gym.base.errors import EngineError
from placement_gym.base.processes.child import Child, ChildLostError
from placement_gym.envs.online.engine_process import Arrays, read_arrays, write_arrays
from placement_gym.hardware.devices import DeviceSpec

PROCESS = "placement_gym.envs.online.engine_process"
TRIES = 2
"""Times that a stage is tried whose process ends, as where latencies of placements are measured."""
LOAD_S = 120.0
"""Seconds that loading may take, likewise."""
LEAST_S, TIMES = 10.0, 100.0
"""A stage hangs after so many seconds, or times as long as planned if that is longer: ours. It does
not count what was queued before it."""


class Engine:
    """Runs stages on one device; where a process crashes or hangs it goes on in a new one.

    Attributes:
        ends: How processes ended that were replaced, as in ``"killed by SIGSEGV"``.

    Args:
        device: The device.
        file: For inputs and outputs.
        core: Of the processor, that its threads run on; None leaves that to the system.
    """

    def __init__(self, device: DeviceSpec, file: Path, core: int | None = None) -> None:
        self.device, self.file, self.core = device, file, core
        self.ends: list[str] = []
        self.child: Child | None = None
        self.loaded: set[int] = set()

    def start(self) -> Child:
        """The process; a new one holds no weights."""
        if self.child is None:
            self.loaded.clear()
            start = {"device": self.device.to_json(), "file": str(self.file)}
            self.child = Child(PROCESS, start)
            if self.core is not None:
                with suppress(OSError):
                    os.sched_setaffinity(self.child.process.pid, {self.core})
        return self.child

    def run(
        self,
        stage: int,
        model: Path,
        held: Collection[int],
        inputs: Arrays,
        planned_ms: float,
    ) -> tuple[Arrays, float, float]:
        """Run a stage, and load it first if need be.

        Args:
            stage: Its number.
            model: File of its model.
            held: Stages whose weights stay loaded; others are released first.
            inputs: Of the model.
            planned_ms: Time that it should take, from which follows when it counts as hung.

        Returns:
            Its outputs, and milliseconds that loading and running took.

        Raises:
            EngineError: The stage failed, or ended the process twice.
        """
        request = {"stage": stage, "model": str(model), "held": [*held]}
        for _ in range(TRIES):
            try:
                child, began_s = self.start(), perf_counter()
                self.loaded.intersection_update(held)
                longest_s = max(LEAST_S, TIMES * planned_ms / 1e3)
                write_arrays(self.file, inputs)
                load_ms = child.call(request, longest_s if stage in self.loaded else LOAD_S)
            except ChildLostError as error:  # now, or since the last request
                self.ends.append(str(error))
                self.child = None
            else:
                self.loaded.add(stage)
                outputs = read_arrays(self.file)
                return outputs, load_ms, (perf_counter() - began_s) * 1e3 - load_ms
        raise EngineError(f"it ended the engine's process {TRIES} times: {self.ends[-1]}")

    def close(self) -> None:
        """End the process."""
        if self.child is not None:
            self.child.end()
