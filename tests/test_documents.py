"""What documents and examples point to exists, and the code in them runs."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import placement_gym
from placement_gym import solvers
from placement_gym.bench.study import STUDIES
from placement_gym.cli import main, make_parser

pytestmark = pytest.mark.filterwarnings("error:.*this episode has ended")
"""A reader who copies the code sees no warning."""

ROOT = Path(__file__).parent.parent
FOLDERS = ("agents", "docs", "placement_gym")
GENERATED = {ROOT / "docs" / name for name in ("agents", "environments", "project")}
"""Folders that the build of the site fills from docstrings and READMEs."""
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(path for name in FOLDERS for path in (ROOT / name).rglob("*.md")
      if path.parent not in GENERATED),
]  # fmt: skip
README = ROOT / "README.md"
OWN_AGENT = ROOT / "docs" / "your_own_agent.md"
WITH_CODE = [
    README,
    ROOT / "agents" / "README.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md"))
      if "results" not in path.parts and path in DOCUMENTS),
]  # fmt: skip
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
LINK = re.compile(r"!?\[[^]]*\]\(([^)#]+)\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PUBLIC_PACKAGES = {"placement_gym": placement_gym, "placement_gym.solvers": solvers}
PUBLIC_MODULES = (
    "envs.observation",
    "envs.online.rules",
    "envs.rewards",
    "solvers.search",
)

SMALLER = {
    '"DevicePlacement-v0", model="resnet"': '"DevicePlacement-v0", model="tiny"',
    '    model="resnet",': '    model="tiny",',
    "n_steps=20, batch_size=20, seed=0).learn(100)": "n_steps=4, batch_size=4, seed=0).learn(8)",
}
"""What the README's code is run with instead, to be quick."""


def blocks(path: Path, language: str) -> list[str]:
    """The code blocks of one language in a Markdown file."""
    return [code for name, code in BLOCK.findall(path.read_text()) if name == language]


def test_links_lead_somewhere() -> None:
    for path in (*DOCUMENTS, *NOTEBOOKS):
        found = LINK.findall(path.read_text())
        links = [link for link in found if "://" not in link and "views/" not in link]
        assert not [link for link in links if not (path.parent / link).exists()], path


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_contributing_explains_every_file_of_the_top_level() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    _, _, table = (ROOT / "CONTRIBUTING.md").read_text().partition("## The top level")
    first_cells = re.findall(r"^\|([^|]*)\|", table.partition("\n## ")[0], re.MULTILINE)
    explained = {word.rstrip("/") for cell in first_cells for word in re.findall("`(.*?)`", cell)}
    assert explained == {path.partition("/")[0] for path in listed.stdout.splitlines()}


@pytest.mark.parametrize("name", sorted(path.stem for path in STUDIES.glob("*.yaml")))
def test_studies_can_be_read(name: str) -> None:
    study = placement_gym.Study.load(name)
    assert study.about
    assert study.tasks()
    for spec in study.specs:
        assert callable(spec.load())


def test_every_study_is_documented() -> None:
    text = (ROOT / "docs" / "studies.md").read_text()
    assert not [path.name for path in STUDIES.glob("*.yaml") if f"/{path.name})" not in text]


def imports(code: str) -> Iterator[str]:
    """What a piece of code imports from the package, as ``module`` or ``module:name``."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}:{alias.name}" for alias in node.names)


def is_public(imported: str) -> bool:
    module, _, name = imported.partition(":")
    package, _, inner = module.partition(".")
    if package != "placement_gym":
        return True
    if module in PUBLIC_PACKAGES:
        return not name or name in PUBLIC_PACKAGES[module].__all__
    inside = f"{inner}.{name}."
    return any(inside.startswith(f"{public}.") for public in PUBLIC_MODULES)


def cells(path: Path) -> list[str]:
    """The code of a notebook, without lines for Jupyter."""
    found = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    lines = [[line for line in cell["source"] if not line.startswith("%")] for cell in found]
    return ["".join(code) for code in lines]


def codes(path: Path) -> list[str]:
    """The Python of a module, notebook or document."""
    if path.suffix == ".ipynb":
        return cells(path)
    return [path.read_text()] if path.suffix == ".py" else blocks(path, "python")


def test_what_trains_with_stable_baselines3_sets_threads() -> None:
    # our own algorithms do so themselves
    for path in (*EXAMPLES, *NOTEBOOKS, *WITH_CODE, *(ROOT / "agents").glob("*/README.md")):
        code = "\n".join(codes(path))
        if re.search(r"^from (stable_baselines3|sb3_contrib) import", code, re.M):
            trains = re.search(r"\.learn\(", code)
            assert not trains or re.search(r"set_num_threads\(1\)|limit_threads", code), path


def test_examples_and_documents_import_public_names_only() -> None:
    for path in (*EXAMPLES, *NOTEBOOKS, *WITH_CODE):
        named = [name for code in codes(path) for name in imports(code)]
        assert not [name for name in named if not is_public(name)], path


@pytest.mark.parametrize(
    ("imported", "public"),
    [
        ("placement_gym", True),
        ("placement_gym:Placement", True),
        ("placement_gym.envs:observation", True),
        ("placement_gym.solvers:minimum_cut", True),
        ("placement_gym.solvers.search:search", True),
        ("placement_gym.solvers.cuts:minimum_cut", False),
        ("agents.hsdag:HSDAGPolicy", True),
        ("placement_gym:problem", False),
        ("placement_gym.envs.observation:FEATURES", True),
        ("placement_gym.envs.placement_env:placement_env", False),
        ("placement_gym.bench.study.spec:Study", False),
    ],
)
def test_what_public_means(imported: str, public: bool) -> None:
    assert is_public(imported) is public


@pytest.mark.parametrize("index", range(len(blocks(README, "python"))))
def test_the_code_of_the_readme_runs(
    index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = ROOT / "tests" / "data" / "saved"
    for suffix in (".xml", ".bin"):
        shutil.copy(saved / f"small{suffix}", tmp_path / f"my_model{suffix}")
    (tmp_path / "results").mkdir()
    shutil.copy(saved / "small-placement.json", tmp_path / "results" / "plan-my_model.json")
    monkeypatch.chdir(tmp_path)
    code = blocks(README, "python")[index]
    for original, smaller in SMALLER.items():
        code = code.replace(original, smaller)
    exec(compile(code, f"README.md, block {index}", "exec"), {})


def test_what_is_made_smaller_is_in_the_readme() -> None:
    code = "".join(blocks(README, "python"))
    assert not [original for original in SMALLER if original not in code]


def commands(path: Path) -> list[str]:
    """The ``placement-gym`` commands in the shell blocks of a document."""
    joined = "".join(blocks(path, "sh")).replace("\\\n", " ")
    lines = joined.replace("&&", "\n").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [shlex.join(line[1:]) for line in words if line and line[0].endswith("placement-gym")]


def test_the_comparison_of_the_readme_is_what_it_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (command,) = (one for one in commands(README) if "annealing,min-cut" in one)
    main([*shlex.split(command), "--out", str(tmp_path), "-q"])
    # Words are compared: rich before version 14.3 draws the last column wider.
    printed = set(map(squeeze, capsys.readouterr().out.splitlines()))
    assert not [
        line for line in blocks(README, "text")[0].splitlines() if squeeze(line) not in printed
    ]


def squeeze(line: str) -> str:
    """The line with a single space between words, and of a rule a single character."""
    return re.sub(r"─+", "─", " ".join(line.split()))


def test_documented_commands_can_be_typed() -> None:
    for path in WITH_CODE:
        for command in commands(path):
            options = make_parser().parse_args(shlex.split(command))
            assert callable(options.run), (path, command)


@pytest.mark.parametrize("block", [0, 1], ids=["climber", "PPO"])
def test_the_documented_agents_find_what_they_look_for(block: int, tmp_path: Path) -> None:
    namespace: dict[str, Any] = {}
    exec(blocks(OWN_AGENT, "python")[block], namespace)
    document = placement_gym.compare(
        "tiny", [namespace["make"]], "DevicePlacementSim-v0", budget=30, out=tmp_path, quiet=True
    )
    row = document["rows"][-1]
    assert row["error"] == ""
    assert row["evaluations"] == 30
    assert row["speedup"] >= 1.0


def test_the_documented_study_can_be_read() -> None:
    study = placement_gym.Study.from_dict(yaml.safe_load(blocks(OWN_AGENT, "yaml")[0]))
    assert len(study.tasks()) == 3 * 4 * 5
