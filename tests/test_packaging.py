"""What a release contains, and which versions it needs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import placement_gym

ROOT = Path(__file__).parent.parent
UNTESTED = {"torch", "ruff", "mypy", "types-pyyaml"}
"""Packages whose lower bounds CONTRIBUTING.md says are not tested."""

CONFIG = ConfigParser()
CONFIG.read(ROOT / "setup.cfg")


def test_the_test_command_of_the_readme_makes_its_environment() -> None:
    """CI runs its three parts."""
    (command,) = re.findall(r"^.* -m pytest$", (ROOT / "README.md").read_text(), re.MULTILINE)
    make, install, run = command.split(" && ")
    assert make == "python3 -m venv .venv"
    assert install.startswith(".venv/bin/pip install -c constraints.txt")
    assert run == ".venv/bin/python -m pytest"


def requirements(*further: str) -> dict[str, Version]:
    """The lower bound of every dependency of the package and its tests, and of further extras."""
    extras = CONFIG["options.extras_require"]
    parts = [CONFIG["options"]["install_requires"]]
    parts += [extras[name] for name in ("contrib", "test", *further)]
    found = [Requirement(line) for part in parts for line in part.split("\n") if line]
    return {item.name.lower(): Version(next(iter(item.specifier)).version) for item in found}


def pinned(file: str) -> dict[str, Version]:
    lines = (ROOT / file).read_text().splitlines()
    items = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {
        item.name.lower().replace("_", "-"): Version(next(iter(item.specifier)).version)
        for item in items
    }


def test_the_oldest_versions_are_the_lower_bounds() -> None:
    bounds = requirements()
    oldest = pinned("oldest.txt")
    assert {name: oldest.get(name) for name in bounds if name not in UNTESTED} == {
        name: bound for name, bound in bounds.items() if name not in UNTESTED
    }


def test_every_dependency_has_an_exact_version_that_is_allowed() -> None:
    exact = pinned("constraints.txt")
    assert not [name for name, bound in requirements("docs", "ray").items() if exact[name] < bound]


@pytest.mark.parametrize("package", ["placement_gym", "agents"])
def test_every_file_of_a_package_is_in_the_wheel(package: str) -> None:
    folder = ROOT / package
    patterns = CONFIG["options.package_data"][package].split()
    shipped = {path for pattern in patterns for path in folder.glob(pattern)}
    files = {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".py"}
    assert {path for path in files if "__pycache__" not in path.parts} == shipped


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """Names of the files in the wheel and in the source distribution."""
    pytest.importorskip("setuptools")
    source = tmp_path_factory.mktemp("built") / "source"
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "data")
    shutil.copytree(ROOT, source, ignore=ignored)
    build = "from setuptools import build_meta as b; b.build_wheel('out'); b.build_sdist('out')"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = (source / "out").glob("*.whl")
    (archive,) = (source / "out").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = [name.partition("/")[2] for name in opened.getnames()]
    return zipfile.ZipFile(wheel).namelist(), names


@pytest.mark.slow
def test_a_release_has_all_that_it_needs_and_nothing_else(
    built: tuple[list[str], list[str]],
) -> None:
    wheel, source = built
    for names in built:
        assert {"placement_gym/py.typed", "agents/py.typed"} <= set(names)
        assert "placement_gym/view/static/d3.LICENSE" in names
        assert "placement_gym/bench/studies/paper.yaml" in names
        assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]
    assert not [name for name in wheel if name.endswith((".nbi", ".nbc", ".pyc"))]
    assert {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md"} <= set(source)


ADDRESS = CONFIG["metadata"]["url"]
WITH_ADDRESS = {
    "CITATION.cff",
    "README.md",
    "docs/tutorial/get_started.md",
}
"""Files that say where the repository is."""


def test_every_file_gives_the_address_of_the_metadata() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "CITATION.cff"]
    before = r"git clone |git\+|repository-code: |url = \{|- \[placement_gym: .*\]\("
    given = {
        str(page.relative_to(ROOT)): set(re.findall(rf"(?:{before})(http[^\s`)}}]+)", text))
        for page in pages
        if "http" in (text := page.read_text()) and page.parent.name != "project"  # generated
    }
    assert {page for page, found in given.items() if found} == WITH_ADDRESS
    assert {page for page, found in given.items() if found - {ADDRESS}} == set()


def test_the_description_of_the_package_has_absolute_links(tmp_path: Path) -> None:
    config = ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
    licences = CONFIG["metadata"]["license_files"].split()
    for name in (*config, *licences, "placement_gym/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "out").mkdir()
    build = "from setuptools import build_meta as b; b.prepare_metadata_for_build_wheel('out')"
    done = subprocess.run([sys.executable, "-c", build], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    (file,) = tmp_path.glob("out/*.dist-info/METADATA")
    metadata = file.read_text()
    targets = re.findall(r"\]\(([^)]*)\)", metadata)
    assert len(targets) > 20
    assert not [target for target in targets if not target.startswith("https://")]
    ours = [target.removeprefix(f"{ADDRESS}/") for target in targets if ADDRESS in target]
    files = {target.partition("/main/")[2].partition("#")[0] for target in ours}
    assert not [name for name in files if not (ROOT / name).exists()]
    assert f"{ADDRESS}/raw/main/docs/pictures/measured.svg" in targets
    assert re.search(rf"^(Home-page|Project-URL): .*{re.escape(ADDRESS)}$", metadata, re.MULTILINE)


def test_the_version_is_the_same_everywhere() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == placement_gym.__version__
    heading = rf"^## .*\b{re.escape(cited['version'])}\b"
    assert re.search(heading, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
