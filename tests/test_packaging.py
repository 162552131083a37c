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
        assert sum(name.endswith(".safetensors") for name in names) == len(
            [*(ROOT / "agents").glob("*/weights/*.safetensors")]
        )
        assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]
    assert not [name for name in wheel if name.endswith((".nbi", ".nbc", ".pyc"))]
    assert {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md"} <= set(source)


def test_the_version_is_the_same_everywhere() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == placement_gym.__version__
    heading = rf"^## .*\b{re.escape(cited['version'])}\b"
    assert re.search(heading, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
