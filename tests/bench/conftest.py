"""The results of a small study, once for the tests of reports and of replaying."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies import REPORTED

from placement_gym.bench.known import best_known
from placement_gym.bench.study.runner import run_study


@pytest.fixture
def values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of best known values, in place of the package's."""
    folder = tmp_path / "values"
    folder.mkdir()
    monkeypatch.setattr(best_known, "VALUES", folder)
    return folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a study in which one agent always fails."""
    out = tmp_path_factory.mktemp("study")
    run_study(REPORTED, out, "serial", quiet=True)
    return out
