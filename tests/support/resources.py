"""What a process holds: memory, descriptors, threads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Resources:
    """What a process holds at one moment.

    Attributes:
        resident_mb: Memory that is resident.
        descriptors: Open files, pipes and sockets.
        threads: Threads.
    """

    resident_mb: float
    descriptors: int
    threads: int

    @classmethod
    def usual(cls, samples: Sequence[Resources]) -> Resources:
        """The median memory of several moments, and the most files and threads."""
        return cls(
            median(one.resident_mb for one in samples),
            max(one.descriptors for one in samples),
            max(one.threads for one in samples),
        )

    @classmethod
    def from_process(cls, process: int) -> Resources:
        folder = Path(f"/proc/{process}")
        pages = int((folder / "statm").read_text().split()[1])
        return cls(
            pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
            len(list((folder / "fd").iterdir())),
            len(list((folder / "task").iterdir())),
        )

    def growth_since(self, before: Resources) -> float:
        """Share by which the resident memory has grown."""
        return self.resident_mb / before.resident_mb - 1.0
