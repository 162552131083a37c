"""What is written to a disk that is full or read-only: one clear error, the earlier file whole."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from disks import fill, full_disk, make_read_only, mounted
from fakes import diamond_costs, diamond_problem

from placement_gym.base import FileError
from placement_gym.models import ModelSpec, load_model, save_model
from placement_gym.problem import Placement

SIZE = 2**20


def write_placement(folder: Path) -> None:
    problem = diamond_problem()
    Placement.from_assignment(problem, np.array([0, 1, 1, 0])).save(folder / "placement.json")


def write_model(folder: Path) -> None:
    save_model(load_model("tiny"), folder / "tiny.xml")


def write_costs(folder: Path) -> None:
    diamond_costs(diamond_problem()).save(folder / "costs.json")


def write_temporary_model(folder: Path) -> None:
    model = load_model("tiny")
    with ModelSpec(model).with_loaded_model(model).as_file() as source:
        assert Path(source["model"]).is_file()


@pytest.mark.parametrize(
    "write", [write_placement, write_costs, write_model, write_temporary_model]
)
@pytest.mark.parametrize("disk", ["limited", "full", "read-only"])
def test_unwritable_disk_is_one_error_and_keeps_the_old_file(
    disk: str, write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    limited = disk == "limited"
    with full_disk(SIZE) if limited else mounted(tmp_path, SIZE):
        write(tmp_path)
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        if disk == "full":
            fill(tmp_path)
        elif disk == "read-only":
            make_read_only(tmp_path)
        with (
            full_disk(100) if limited else nullcontext(),
            pytest.raises(FileError, match=r"^cannot (write|make a temporary)"),
        ):
            write(tmp_path)
        now = {path: path.read_bytes() for path in tmp_path.iterdir() if path.name != "ballast"}
        assert now == before


def test_full_disk_leaves_the_earlier_model(tmp_path: Path) -> None:
    with mounted(tmp_path, 2 * SIZE):
        write_model(tmp_path)
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        for leave_bytes in (4096, len(before[tmp_path / "tiny.bin"]) + 8192):
            fill(tmp_path, leave_bytes)
            with pytest.raises(FileError, match=r"cannot write .*tiny\.xml': its disk is full"):
                write_model(tmp_path)
            (tmp_path / "ballast").unlink()
            assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


CHILD = """
import sys, tempfile
from pathlib import Path
sys.path.append(sys.argv[2])
from disks import fill
from placement_gym.base.processes.child import Child, ChildNotStartedError
tempfile.tempdir = sys.argv[1]
fill(Path(sys.argv[1]))
try:
    Child("child_module", {})
except ChildNotStartedError as error:
    print(error)
"""


def test_full_temporary_folder_does_not_end_the_parent_process(tmp_path: Path) -> None:
    """Shared memory in a file with a hole would: the system sends SIGBUS."""
    support = Path(__file__).parent / "support"
    with mounted(tmp_path, 65536):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(tmp_path), str(support)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "it cannot start: No space left on device\n"), done
