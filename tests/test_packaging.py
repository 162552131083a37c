"""What a wheel contains, and which versions it needs."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

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
