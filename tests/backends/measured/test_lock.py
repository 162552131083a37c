# White-box tests of backends.measured
from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openvino as ov
import pytest
from fakes import assignment
from testbed import CHESSBOARD, backend

from placement_gym.backends.measured import Reporter, lock
from placement_gym.backends.measured.engine import describe_command
from placement_gym.backends.measured.lock import measurement_lock
from placement_gym.base import EngineError

ENTERING_CHILD = """
from placement_gym.backends.measured.lock import measurement_lock
from placement_gym.base.errors import EngineError
with measurement_lock():
    print("entered", flush=True)
    input()
"""
WAITING_FOR = "to finish measuring"
DEAD_PROCESS = 2**22 + 1
"""Above the largest number that Linux gives to a process."""


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock that only this test and its children know."""
    monkeypatch.setenv("PLACEMENT_GYM_LOCK", str(tmp_path / "lock"))
    return tmp_path / "lock"


@contextmanager
def child() -> Iterator[subprocess.Popen[str]]:
    """A process that takes the lock, says so, and keeps it until it reads a line."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", ENTERING_CHILD]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    with process:
        yield process
        process.kill()


def read_line(process: subprocess.Popen[str], stream: str) -> str:
    """The next line that the process writes."""
    source = getattr(process, stream)
    assert select.select([source], [], [], 60.0)[0], "the process said nothing"
    return str(source.readline())


def test_second_process_waits_and_says_for_whom() -> None:
    with child() as waiting:
        with measurement_lock():
            said = read_line(waiting, "stderr")
            assert said.startswith(f"waiting for process {os.getpid()} (")
            assert WAITING_FOR in said
            assert not select.select([waiting.stdout], [], [], 0.2)[0]
        assert read_line(waiting, "stdout") == "entered\n"


def test_progress_says_for_whom_and_how_long_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "SILENT_S", 0.1)
    monkeypatch.setattr(lock, "MAX_HOLD_S", 10.0)
    said: list[str] = []

    def wait(text: str) -> None:
        said.append(text)
        if len(said) == 12:
            holder.kill()
            holder.wait()

    with child() as holder:
        assert read_line(holder, "stdout") == "entered\n"
        with measurement_lock(Reporter(on_wait=wait)):
            pass
    assert said[0] == f"waiting 0 s for process {holder.pid} (python -c)"
    assert said[11] == f"waiting 1 s for process {holder.pid} (python -c)"
    assert said[-1] == ""


def test_who_waits_for_a_child_reads_its_command(capfd: pytest.CaptureFixture[str]) -> None:
    with child() as holder:
        assert read_line(holder, "stdout") == "entered\n"
        assert lock.describe_holder() == f"process {holder.pid} (python -c)"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["/usr/bin/placement-gym", "plan", "--model", "/a/b.xml"], "plan --model /a/b.xml"),
        (["/x/placement_gym/__main__.py", "plan"], "python -m placement_gym plan"),
        (["/home/me/train.py --out /data/dep"], "train.py --out /data/dep"),
        (["-c"], "python -c"),
        (["worker of process 7: plan --model /data/dep"], "process 7: plan --model /data/dep"),
    ],
)
def test_the_holder_is_shown_as_its_command(arguments: list[str], shown: str) -> None:
    assert describe_command(arguments).endswith(shown)
    assert not describe_command(arguments).startswith("/")


def test_the_lock_is_where_the_environment_variable_says(own_lock: Path) -> None:
    with measurement_lock():
        assert own_lock.exists()
    assert lock.lock_path() == own_lock


def test_without_the_variable_all_processes_share_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLACEMENT_GYM_LOCK")
    monkeypatch.setenv("TMPDIR", "/somewhere/else")
    assert lock.lock_path() == lock.DEFAULT_PATH


@pytest.mark.parametrize(
    "note",
    ["", "nonsense", f"{DEAD_PROCESS} gone", "-5 odd", "99999999999999999999 huge", "\0\xff"],
)
def test_a_stale_or_broken_note_names_nobody(own_lock: Path, note: str) -> None:
    lock.note_path().write_text(note, encoding="latin-1")
    assert lock.describe_holder() == "another process"


def test_a_note_that_cannot_be_read_or_written_does_not_matter(own_lock: Path) -> None:
    lock.note_path().mkdir()
    assert lock.describe_holder() == "another process"
    with measurement_lock():
        pass


@pytest.mark.parametrize("kind", ["symlink", "hard link", "fifo"])
def test_what_others_put_in_place_of_the_note_is_left_alone(own_lock: Path, kind: str) -> None:
    mine = own_lock.parent / "mine"
    mine.write_text(f"{os.getpid()} precious")
    mine.chmod(0o600)
    if kind == "symlink":
        lock.note_path().symlink_to(mine)
    elif kind == "hard link":
        lock.note_path().hardlink_to(mine)
    else:
        os.mkfifo(lock.note_path())
    with measurement_lock():
        assert lock.describe_holder() == "another process"
    assert mine.read_text() == f"{os.getpid()} precious"
    assert mine.stat().st_mode & 0o777 == 0o600


def test_a_lock_that_leads_elsewhere_is_refused_with_the_remedy(own_lock: Path) -> None:
    mine = own_lock.parent / "mine"
    mine.write_text("precious")
    own_lock.symlink_to(mine)
    with pytest.raises(EngineError, match="set PLACEMENT_GYM_LOCK to a path"), measurement_lock():
        pytest.fail("it entered")
    assert mine.read_text() == "precious"


def test_a_shorter_note_replaces_a_longer_one() -> None:
    lock.write_note(f"{os.getpid()} {'x' * 50}")
    lock.write_note(f"{os.getpid()} short")
    assert lock.describe_holder() == f"process {os.getpid()} (short)"


def test_a_note_is_shown_on_one_short_line() -> None:
    lock.write_note(f"{os.getpid()} evil\n\x1b[31m{'x' * 500}")
    described = lock.describe_holder()
    assert described.isprintable()
    assert len(described) < 160


def test_nobody_is_named_when_the_lock_is_free_again() -> None:
    with measurement_lock():
        with measurement_lock():
            pass
        assert f"process {os.getpid()}" in lock.describe_holder()
    assert lock.describe_holder() == "another process"


def test_the_lock_can_be_taken_again_by_its_holder() -> None:
    with measurement_lock(), measurement_lock():
        assert backend(ov.Core()).evaluate(assignment(CHESSBOARD)).feasible


def test_the_lock_is_free_again_when_its_holder_dies(capfd: pytest.CaptureFixture[str]) -> None:
    with child() as holder:
        assert read_line(holder, "stdout") == "entered\n"
        holder.kill()
        holder.wait()
        with measurement_lock():
            pass
    assert WAITING_FOR not in capfd.readouterr().err


def test_a_holder_that_never_ends_is_named_by_those_that_give_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lock, "MAX_HOLD_S", 0.5)
    monkeypatch.setattr(lock, "SILENT_S", 0.1)
    with child() as holder:
        assert read_line(holder, "stdout") == "entered\n"
        with (
            pytest.raises(
                EngineError, match=rf"process {holder.pid} \(python -c\) has been measuring"
            ),
            measurement_lock(),
        ):
            pytest.fail("it entered")


@pytest.mark.slow
def test_wait_gives_signs_of_life_and_restarts_with_each_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many short measurements of others are no reason to give up."""
    monkeypatch.setattr(lock, "MAX_HOLD_S", 0.5)
    monkeypatch.setattr(lock, "SILENT_S", 0.1)
    beats: list[str] = []

    def next_turn(stage: str) -> None:
        beats.append(stage)
        os.utime(lock.note_path(), ns=(len(beats), len(beats)))
        if len(beats) == 12:
            holder.kill()
            holder.wait()

    with child() as holder:
        assert read_line(holder, "stdout") == "entered\n"
        with measurement_lock(Reporter(on_heartbeat=next_turn)):
            assert set(beats) == {"waiting for the lock"}
            assert len(beats) >= 12
