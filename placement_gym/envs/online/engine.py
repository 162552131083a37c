"""A device's engine in a process of its own: a crash ends the stage that it runs, and no more."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Pipe
from subprocess import DEVNULL, Popen
from time import perf_counter

from placement_gym.base.errors import EngineError
from placement_gym.base.files import IMPORT_ROOT
from placement_gym.base.processes.child import describe_exit
from placement_gym.envs.online.engine_process import Values
from placement_gym.hardware.devices import DeviceSpec

PROCESS = "placement_gym.envs.online.engine_process"
TRIES = 2
"""Times that a stage is tried whose process ends, as where latencies of placements are measured."""


class Engine:
    """Runs stages on one device; after a crash it goes on in a new process.

    Attributes:
        released: Stages whose weights the process drops before it runs the next one.
        ends: How processes ended that were replaced, as in ``"killed by SIGSEGV"``.

    Args:
        device: The device.
        core: Of the processor, that its threads run on; None leaves that to the system.
    """

    def __init__(self, device: DeviceSpec, core: int | None = None) -> None:
        self.device, self.core = device, core
        self.released: deque[int] = deque()
        self.ends: list[str] = []
        self.start()

    def start(self) -> None:
        """Start the process, which holds no weights."""
        self.pipe, theirs = Pipe()
        with theirs:
            self.process = Popen(
                [sys.executable, "-P", "-m", PROCESS, str(theirs.fileno())],
                stdin=DEVNULL,
                env={**os.environ, "PYTHONPATH": str(IMPORT_ROOT)},
                pass_fds=(theirs.fileno(),),
                process_group=0,  # Ctrl-C is for the program, which ends its engines
            )
        if self.core is not None:
            with suppress(OSError):
                os.sched_setaffinity(self.process.pid, {self.core})
        self.pipe.send(self.device.to_json())

    def run(
        self, stage: int, model: str, inputs: Sequence[Values]
    ) -> tuple[list[Values], float, float]:
        """Run a stage, and load it first if need be.

        Args:
            stage: Its number.
            model: File of its model.
            inputs: Of the model.

        Returns:
            Its outputs, and milliseconds that loading and running took.

        Raises:
            EngineError: The stage failed, or ended the process twice.
        """
        released = [self.released.popleft() for _ in range(len(self.released))]
        for _ in range(TRIES):
            began_s = perf_counter()
            try:
                self.pipe.send((stage, model, released, inputs))
                outputs, load_ms, error = self.pipe.recv()
            except (EOFError, OSError):  # the process has ended, now or before
                self.ends.append(describe_exit(self.process.wait()))
                self.close()
                self.start()
            else:
                break
        else:
            raise EngineError(f"it ended the engine's process {TRIES} times: {self.ends[-1]}")
        if error:
            raise EngineError(error)
        return outputs, load_ms, (perf_counter() - began_s) * 1e3 - load_ms

    def close(self) -> None:
        """End the process."""
        self.pipe.close()
        self.process.kill()
        self.process.wait()
