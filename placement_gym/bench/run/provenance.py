"""Provenance of a result besides its arguments: version, commit, machine."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from placement_gym.version import VERSION

PACKAGES = ("openvino", "gymnasium", "stable-baselines3", "torch", "numpy")


def origin() -> dict[str, str | None]:
    """The columns of a row that say where it comes from: version, commit and processor."""
    return {"version": VERSION, "commit": git_commit(), "processor": processor()}


@cache
def versions() -> dict[str, str]:
    """Versions of Python and the packages that results depend on."""
    result = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            result[package] = version(package)
        except PackageNotFoundError:
            continue
    return result


@cache
def host() -> str:
    """The machine's name, architecture and system."""
    return f"{platform.node()} {platform.machine()} {sys.platform}"


@cache
def processor() -> str:
    """The processor's name, as its maker and the system have it."""
    listed = re.search(r"^model name\s*: (.+)$", read_text(Path("/proc/cpuinfo")), re.MULTILINE)
    return listed[1] if listed else platform.processor() or platform.machine()


def read_text(path: Path) -> str:
    """The text of a file; empty if there is none, as on other systems."""
    return path.read_text(errors="replace") if path.is_file() else ""


@cache
def git_commit() -> str | None:
    """Commit of the source tree this package runs from; None if there is none."""
    return find_commit(Path(__file__))


def find_commit(file: Path) -> str | None:
    """Commit of the repository that tracks a file; None if none does, as in a venv inside one."""
    try:
        # An installed package inside a user's repository must not get that repository's commit.
        if not run_git(file.parent, "ls-files", file.name):
            return None
        return run_git(file.parent, "rev-parse", "--short", "HEAD") or None
    except OSError:
        return None


def run_git(folder: Path, *words: str) -> str:
    """Return what git prints; an empty string if it fails."""
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
