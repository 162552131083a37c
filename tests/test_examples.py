"""Every example runs as a user would run it, and prints what it is about."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
NOTEBOOK = FOLDER / "10_study.ipynb"
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
    "08_published": r"published numbers, and those found here(.|\n)*Yao 2026",
    "requests_under_load": r"static: mean log slow-down \d+(.|\n)*PPO: mean log slow-down \d+",
    "09_twin_then_measured": r"milp(.|\n)*twin_then_measured(.|\n)*\| 0 \| 1 \| \d+ \|",
}
"""What the output of each example has to contain."""


def test_examples_are_numbered_without_a_gap() -> None:
    assert [int(path.name[:2]) for path in NUMBERED] == list(range(1, len(NUMBERED) + 1))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        *(pytest.param(path, (), id=path.stem, marks=pytest.mark.slow) for path in EXAMPLES),
        pytest.param(EXAMPLES[0], ("--env", "DevicePlacementSim-v0"), id="the first, simulated"),
    ],
)
def test_the_example_runs(path: Path, words: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, str(path), "--smoke", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(PRINTED[path.stem], done.stdout), done.stdout


def run_cells(notebook: Path) -> None:
    """Run the code of a notebook in this process, and write the files that its cells are."""
    namespace: dict[str, object] = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        code = "".join(cell["source"])
        first, _, rest = code.partition("\n")
        if first.startswith("%%writefile "):
            Path(first.split()[1]).write_text(rest)
        elif cell["cell_type"] == "code":
            exec(compile(code, cell["id"], "exec"), namespace)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("checkout", [True, False], ids=["in a checkout", "elsewhere"])
def test_the_notebook_reports_an_agent_beside_others(
    checkout: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "examples").mkdir()
    monkeypatch.chdir(tmp_path / "examples")
    if checkout:
        (tmp_path / "docs").symlink_to(FOLDER.parent / "docs")
    run_cells(NOTEBOOK)
    printed = capsys.readouterr().out
    assert "18 runs, failed: []" in printed
    for agent in ("my_climber:make", "heft", "random-blocks"):
        assert re.search(rf"^\| {agent} \| 0\.\d{{3}} \|", printed, re.MULTILINE), printed
    rows = 246 if checkout else 18  # the committed ones and six more
    assert f"{rows} of {rows} rows are valid" in printed
