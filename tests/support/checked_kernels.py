"""``python checked_kernels.py FILE ...``: run tests with kernels that check every index.

The tests draw other and larger graphs than they do without. ``NUMBA_BOUNDSCHECK`` has to be 1, and
``NUMBA_CACHE_DIR`` an empty folder, or kernels come from the cache, which holds them unchecked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numba
import numpy as np
import pytest

MAX_OPERATORS = 40


@numba.njit
def read_beyond_the_end(values: np.ndarray) -> float:
    return float(values[len(values)])


def other_generators(n_cases: int) -> Iterator[tuple[int, np.random.Generator]]:
    """As ``test_kernels.generators``, with other seeds and more operators."""
    for seed in range(n_cases):
        yield 1 + seed * MAX_OPERATORS // n_cases, np.random.default_rng([seed, 1])


class OtherGraphs:
    """Gives them to the tests that draw from generators."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for module in {item.getparent(pytest.Module).obj for item in items}:
            if hasattr(module, "generators"):
                module.generators = other_generators


if __name__ == "__main__":
    try:
        read_beyond_the_end(np.zeros(1))
        sys.exit("indices are not checked")
    except IndexError:
        pass
    sys.exit(pytest.main(["-q", "-n0", "-p", "no:cacheprovider", *sys.argv[1:]], [OtherGraphs()]))
