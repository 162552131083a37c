"""Every example runs as a user would run it, and prints what it is about."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

QUICK = ("01_first_steps",)
EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
NUMBERED = [path for path in EXAMPLES if path.name[:2].isdigit()]
PRINTED = {
    "01_first_steps": r"reward -?\d+\.\d{3}, \d+ transfers(.|\n)*reward -?\d+\.\d{3}",
    "02_use_a_placement": r"\d+ submodels on \[.*\], output \(1, 64, 1, 1\)",
    "03_ppo": r"mean log speed-up of the greedy placement: -?\d+\.\d{3}",
    "04_your_own_agent": r"make +\d(.|\n)*random-blocks +\d(.|\n)*window +\d",
    "05_compare": r"openvino-hetero +\d(.|\n)*window +\d",
    "06_hsdag": r"\d+\.\d{3} x best single",
    "07_ablations": r"% above the optimum, best \(greedy\)",
    "hsdag_single_file": r"the prediction is \d+\.\d{3} x best single",
    "08_published": r"published numbers and ours(.|\n)*Yao 2026",
    "09_twin_then_measured": r"milp(.|\n)*twin_then_measured(.|\n)*\| 0 \| 1 \| \d+ \|",
}
"""What the output of each example has to contain."""


def test_examples_are_numbered_without_a_gap() -> None:
    assert [int(path.name[:2]) for path in NUMBERED] == list(range(1, len(NUMBERED) + 1))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)
        for path in EXAMPLES
    ],
)
def test_the_example_runs(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(path), "--smoke"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(PRINTED[path.stem], done.stdout), done.stdout
