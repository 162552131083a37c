"""The results of a small study, once for the tests of reports and of replaying."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies import REPORTED

from placement_gym.bench.study.runner import run_study


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a study in which one agent always fails."""
    out = tmp_path_factory.mktemp("study")
    run_study(REPORTED, out, "serial", quiet=True)
    return out
