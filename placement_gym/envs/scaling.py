"""Numbers of order one: how observations hold indices, features and times.

No entry saturates a network that reads observations unchanged. Policies of this package restore
indices and times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

GRAPH_IDS = 1 << 24
"""Number of graph ids; float32 holds the share of each exactly."""
LOG_DIVISOR = 8.0
"""Divisor of observed logarithms of whole quantities: a power of two, which loses no digit."""


class IndexBox(spaces.Box):
    """The space of indices that are divided by their number.

    Args:
        count: Divisor of indices.
        shape: Shape of an array of them.
    """

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        super().__init__(0.0, 1.0, shape, np.float32)
        self.count = count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexBox) and self.count == other.count and super().__eq__(other)

    def scale(self, indices: NDArray[Any]) -> NDArray[np.float32]:
        """Divide indices by their number, as observations hold them."""
        return (indices / self.count).astype(np.float32)

    def read(self, observed: Any) -> Any:
        """Restore the int64 indices of an observed array or tensor, or of a batch of them."""
        return read_indices(observed, self.count)


def read_indices(observed: Any, count: int) -> Any:
    """The int64 indices of an array or tensor of indices that were divided by their number."""
    indices = (observed * count).round()
    return indices.astype(np.int64) if isinstance(indices, np.ndarray) else indices.long()
