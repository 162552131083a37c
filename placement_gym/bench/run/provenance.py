"""What a result depends on besides its arguments: versions, machine, commit."""

from __future__ import annotations

import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from placement_gym.version import VERSION

PACKAGES = ("openvino", "gymnasium", "stable-baselines3", "torch", "numpy")


@cache
def versions() -> dict[str, str]:
    """Versions of Python, this package and the packages that results depend on."""
    found = {"python": platform.python_version(), "placement-gym": VERSION}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@cache
def host() -> str:
    """The machine's name, architecture and system."""
    return f"{platform.node()} {platform.machine()} {sys.platform}"


@cache
def git_commit() -> str | None:
    """Commit of the source tree this package runs from; None if there is none."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None
