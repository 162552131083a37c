"""Signs of life of a child process, in memory that it shares with its parent.

A sign costs a store of some bytes: no system call wakes the parent during a measurement.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from time import monotonic

MAX_STAGE_BYTES = 64
"""Bytes for the name of a stage in the shared memory of a heartbeat. Hand-tuned."""
FORMAT = struct.Struct(f"=dq{MAX_STAGE_BYTES}s")


class Heartbeat:
    """The time of the last sign, what began then, and a count.

    Args:
        descriptor: Of the shared file; None makes one.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            with tempfile.TemporaryFile() as file:
                file.write(bytes(FORMAT.size))  # a hole would end this process on a full disk
                file.flush()
                self.memory = mmap.mmap(file.fileno(), FORMAT.size)
                self.descriptor = os.dup(file.fileno())
        else:
            self.memory = mmap.mmap(descriptor, FORMAT.size)
            self.descriptor = descriptor
        self.count = 0

    def touch(self, stage: str = "") -> None:
        """Record the beginning of a stage."""
        # One copy: pack_into writes zeros first, by which the last sign would be as old as the
        # machine's start to a parent that reads at that moment.
        self.memory[:] = FORMAT.pack(monotonic(), self.count, stage.encode()[:MAX_STAGE_BYTES])

    def touch_and_count(self, stage: str = "") -> None:
        """As ``touch``, and count one more."""
        self.count += 1
        self.touch(stage)

    def read(self) -> tuple[float, int, str]:
        """Seconds since the last sign, the count, and the stage that began then."""
        time_s, count, stage = FORMAT.unpack_from(self.memory)
        return monotonic() - time_s, count, stage.rstrip(b"\0").decode(errors="replace")

    def close(self) -> None:
        """Release the memory and its file."""
        if not self.memory.closed:
            self.memory.close()
            os.close(self.descriptor)
