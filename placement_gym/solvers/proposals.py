"""Searches that propose placements and are told their latencies."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from placement_gym.arrays import FloatArray, IntArray

Proposals = Generator[IntArray, FloatArray, None]
"""Yields (k, n_units) placements to evaluate and is sent their (k,) latencies, infinite where a
placement is infeasible. Latencies may be in any unit."""


class Found:
    """Placements that were evaluated."""

    def __init__(self) -> None:
        self.placements: list[IntArray] = []
        self.latencies: list[float] = []

    def add(self, placements: IntArray, latencies: FloatArray) -> None:
        """Add evaluated placements."""
        self.placements += list(placements)
        self.latencies += latencies.tolist()

    def best(self, k: int, apart: float = 0.0) -> list[int]:
        """Indices of at most ``k`` placements, fastest first, that differ from each other.

        Args:
            k: Maximum number.
            apart: Any two must differ in more than this share of the units.
        """
        chosen: list[int] = []
        for i in np.argsort(self.latencies, kind="stable").tolist():
            differs = [(self.placements[i] != self.placements[j]).mean() > apart for j in chosen]
            if len(chosen) < k and all(differs):
                chosen.append(i)
        return chosen

    def __len__(self) -> int:
        return len(self.placements)
