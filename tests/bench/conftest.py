# White-box tests of bench
"""The results of a small study, once for the tests of reports and of replaying."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from studies import REPORTED

from placement_gym.bench import known
from placement_gym.bench.study import run_study

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture
def values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file without best known values, in place of the package's."""
    file = tmp_path / "best_known.json"
    known.save_values([], file)
    monkeypatch.setattr(known, "VALUES", file)
    return file


@pytest.fixture
def known_script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that writes best known values."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("common", "known"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return import_module("known")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a study in which one agent always fails."""
    out = tmp_path_factory.mktemp("study")
    run_study(REPORTED, out, "serial", quiet=True)
    return out
