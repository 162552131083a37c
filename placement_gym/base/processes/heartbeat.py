"""Signs of life of a child process in shared memory: none wakes the parent in a measurement."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from time import monotonic

MAX_STAGE_BYTES = 64
"""Maximum bytes of a stage's name. Hand-tuned."""
FORMAT = struct.Struct(f"=dq{MAX_STAGE_BYTES}s")


class Heartbeat:
    """Time of the last sign, its stage and a count, in a shared file, by default a new one."""

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            with tempfile.TemporaryFile() as file:
                file.write(bytes(FORMAT.size))  # a hole on a full disk would end this process
                file.flush()
                self.memory = mmap.mmap(file.fileno(), FORMAT.size)
                self.descriptor = os.dup(file.fileno())
        else:
            self.memory = mmap.mmap(descriptor, FORMAT.size)
            self.descriptor = descriptor
        self.count = 0

    def touch(self, stage: str = "") -> None:
        """Record the beginning of a stage."""
        # One copy: pack_into writes zeros first, which the parent could read as the time.
        self.memory[:] = FORMAT.pack(monotonic(), self.count, stage.encode()[:MAX_STAGE_BYTES])

    def touch_and_count(self, stage: str = "") -> None:
        """Record the beginning of a stage and increase the count."""
        self.count += 1
        self.touch(stage)

    def read(self) -> tuple[float, int, str]:
        """Return the seconds since the last sign, the count and the stage."""
        time_s, count, stage = FORMAT.unpack_from(self.memory)
        return monotonic() - time_s, count, stage.rstrip(b"\0").decode(errors="replace")

    def close(self) -> None:
        if not self.memory.closed:
            self.memory.close()
            os.close(self.descriptor)
