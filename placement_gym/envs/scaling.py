"""Scaling of observations to numbers of order one, which no network saturates on."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

GRAPH_IDS = 1 << 24
"""Number of graph ids: float32 holds each id / 2^24 exactly."""
LOG_DIVISOR = 8.0
"""Divisor of observed logarithms. Chosen because dividing by a power of two is exact."""


class IndexBox(spaces.Box):
    """The space of arrays of indices below ``count``, divided by it."""

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        super().__init__(0.0, 1.0, shape, np.float32)
        self.count = count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexBox) and self.count == other.count and super().__eq__(other)

    def scale(self, indices: NDArray[Any]) -> NDArray[np.float32]:
        """Divide indices by their number."""
        return (indices / self.count).astype(np.float32)

    def read(self, observed: Any) -> Any:
        """Restore the int64 indices of an observed array or tensor, or of a batch."""
        return read_indices(observed, self.count)


def read_indices(observed: Any, count: int) -> Any:
    """Restore int64 indices that were divided by their number, in an array or tensor."""
    indices = (observed * count).round()
    return indices.astype(np.int64) if isinstance(indices, np.ndarray) else indices.long()
