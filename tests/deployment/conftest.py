# White-box tests of deployment
"""Plans of tests, whose problems are small, need no long search."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest

from placement_gym.deployment import candidates


@pytest.fixture(scope="session", autouse=True)
def short_search() -> Iterator[None]:
    with mock.patch.object(candidates, "N_PROPOSALS", 20):
        yield
