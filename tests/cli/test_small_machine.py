"""The commands on a machine that has less memory than they could ask for."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 4 * 2**30
"""Bytes of address space; loading torch with CUDA takes 3.2 GB of it, the toy 1.6 without CUDA."""
SIM = ["--env", "DevicePlacementSim-v0", "-m", "tiny", "-d", "cpu+igpu"]
STUDY = """\
env: DevicePlacementSim-v0
models: [tiny]
budget: 6
seeds: 2
agents: [prefix, hsdag, search]
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_commands_run_in_little_address_space(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    for words in (
        ["compare", *SIM, "--agents", "prefix,hsdag", "--budget", "10", "--out", "sim"],
        ["compare", "-m", "tiny", "--budget", "3", "--out", "measured"],
        ["plan", "-m", "tiny", "--out", "plan"],
        ["view", "plan/plan-tiny.json"],
        ["check", "-m", "tiny", "-d", "cpu-testbed", "--out", "check"],
        ["bench", "run", "study.yaml", "--out", "rows"],
        ["bench", "report", "study.yaml", "--out", "rows"],
        ["bench", "validate", "--out", "rows"],
        ["bench", "publish", "study.yaml", "--out", "rows", "--to", "published"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "placement_gym", *words, "-q"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)),
        )
        assert done.returncode == 0, (words, done.stderr)
