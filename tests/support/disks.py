"""Disks that are full or read-only, for tests of what a failed write leaves behind."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def full_disk(size_bytes: int = 0) -> Iterator[None]:
    """Let the system refuse to write more than ``size_bytes`` into any file of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def mounted(folder: Path, size_bytes: int) -> Iterator[None]:
    """Make a folder a file system in memory; skips the test where that is not allowed."""
    if not mount("-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)):
        pytest.skip("needs the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def mount(*arguments: str) -> bool:
    """Mount something; returns whether the system allowed it."""
    try:
        return (
            subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


def fill(folder: Path, leave_bytes: int = 0) -> None:
    """Fill the folder's file system, but for some bytes."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    os.truncate(ballast, max(ballast.stat().st_size - leave_bytes, 0))


def make_read_only(folder: Path) -> None:
    """Make a mounted folder's file system read-only."""
    assert mount("-o", "remount,ro", str(folder))
