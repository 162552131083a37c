"""Kernels read and write inside their arrays: the tests of drawn graphs, with indices checked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
FILES = (
    "backends/simulated/test_kernels.py",
    "backends/simulated/test_limits.py",
    "solvers/test_repair.py",
    "agents/test_search_moves.py",
)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("file", FILES)
def test_no_kernel_leaves_its_arrays(file: str, tmp_path: Path) -> None:
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(TESTS / "support" / "checked_kernels.py"), str(TESTS / file)]
    done = subprocess.run(command, env=os.environ | checked, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
