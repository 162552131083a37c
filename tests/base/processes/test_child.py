# White-box tests of base.processes
"""Child processes: answers, deadlines, deaths, forks."""

from __future__ import annotations

import errno
import gc
import importlib.util
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from placement_gym.base import progress_bar
from placement_gym.base.processes import (
    Child,
    ChildHungError,
    ChildLostError,
    ChildNotStartedError,
    RemoteError,
)
from placement_gym.base.processes.child import describe_exit
from placement_gym.base.processes.heartbeat import Heartbeat

SUPPORT = Path(__file__).parents[2] / "support"
LONG = "x" * 300_000
"""More than a pipe holds."""


@pytest.fixture(autouse=True)
def own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{SUPPORT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child("child_module", {})
    yield child
    child.end()


def ask(child: Child, method: str, argument: Any = None, timeout_s: float = 20.0) -> Any:
    return child.call({method: argument}, timeout_s)


def wait_for_answer(child: Child, timeout_s: float) -> None:
    while not child.wait(timeout_s):
        pass


def test_child_answers_repeatedly_whatever_it_prints(child: Child) -> None:
    assert ask(child, "echo", {"a": [1, 2.5, None]}) == {"a": [1, 2.5, None]}
    assert ask(child, "chatter", '{"value": 7}\n') == "heard"
    assert ask(child, "echo", LONG) == LONG
    assert ask(child, "read") == ""
    with pytest.raises(RemoteError, match="no_such") as failed:
        ask(child, "no_such")
    assert "AttributeError" in failed.value.values["types"]
    with pytest.raises(RemoteError, match="3"):
        ask(child, "exit", 3)
    assert ask(child, "count") == 4


def test_processes_that_measure_load_no_telemetry(child: Child) -> None:
    telemetry = "openvino_telemetry"
    assert importlib.util.find_spec(telemetry)
    assert not ask(child, "imports", telemetry)


def test_what_a_child_prints_for_a_night_does_not_fill_the_disk(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placement_gym.base.processes.child.MAX_LOG_BYTES", 1000)
    for _ in range(5):
        ask(child, "chatter", "x" * 700)
    assert child.log is not None
    assert os.fstat(child.log).st_size < 3000
    with pytest.raises(ChildLostError, match="last words"):
        ask(child, "die", "SIGABRT")


def test_warnings_and_messages_of_a_child_reach_the_user(
    child: Child, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(UserWarning, match="it is late"):
        ask(child, "warn", "it is late")
    ask(child, "say", "waiting for somebody")
    assert capsys.readouterr().err == "waiting for somebody\n"


def test_bar_shows_what_a_child_waits_for_until_it_is_lost(child: Child) -> None:
    with progress_bar(11, "measurements", True) as progress:
        shown = progress.tasks[0].fields
        ask(child, "wait", "waiting 3 s for somebody")
        assert shown["waiting"] == "waiting 3 s for somebody"
        with pytest.raises(ChildLostError):
            ask(child, "die", "SIGKILL")
        assert shown["waiting"] == ""


def test_a_child_tells_steps_that_are_done_and_their_results(child: Child) -> None:
    done: list[tuple[int, list[int]]] = []
    child.on_steps = lambda steps, found: done.append((steps, found))
    ask(child, "take_steps", 3)
    assert done == [(1, [0]), (2, [0, 1]), (3, [0, 1, 2])]


@pytest.mark.parametrize(
    ("method", "argument", "message"),
    [
        ("die", "SIGSEGV", "killed by SIGSEGV: last words"),
        ("die", "SIGKILL", "killed by SIGKILL: last words"),
        ("leave", 3, "exited with status 3"),
        ("babble", "what?", "sent an invalid message"),
        ("babble", "17", "sent an invalid message"),
    ],
)
def test_a_child_that_dies_or_babbles_is_lost(
    child: Child, method: str, argument: Any, message: str
) -> None:
    with pytest.raises(ChildLostError, match=message):
        ask(child, method, argument)
    assert not child.alive


@pytest.mark.slow
def test_only_a_child_without_signs_of_life_is_ended(child: Child) -> None:
    assert ask(child, "work", 4.0, timeout_s=3.0) == "done"
    child.send({"hang": 60.0}, 20.0)
    while child.heartbeat.read()[2] != "dreaming":
        time.sleep(0.01)
    with pytest.raises(ChildHungError, match=r"dreaming took more than 0\.3 s"):
        wait_for_answer(child, timeout_s=0.3)
    assert child.process.poll() == -signal.SIGKILL


@pytest.mark.parametrize("request_size", [10, len(LONG)])
def test_a_stopped_child_is_ended(child: Child, request_size: int) -> None:
    ask(child, "echo")
    os.kill(child.process.pid, signal.SIGSTOP)
    with pytest.raises(ChildHungError, match=r"took more than 0\.3 s"):
        ask(child, "echo", "x" * request_size, timeout_s=0.3)
    assert child.process.poll() == -signal.SIGKILL


def test_a_child_that_cannot_start_says_why() -> None:
    with pytest.raises(RemoteError, match="wrong model"):
        ask(Child("child_module", {"fail": "wrong model"}), "echo")
    with pytest.raises(ChildLostError, match="No module named no_such_module"):
        ask(Child("no_such_module", {}), "echo")


def descriptors() -> set[int]:
    return {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}


def test_child_that_cannot_start_leaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    gc.collect()  # what earlier tests have left
    before = descriptors()
    for of in ("subprocess.Popen", "os.dup", "mmap.mmap"):
        with monkeypatch.context() as patched:
            patched.setattr(of, refuse)
            with pytest.raises(ChildNotStartedError, match="Resource temporarily unavailable"):
                Child("child_module", {})
    gc.collect()
    assert descriptors() == before


def test_a_child_is_heard_by_a_process_with_many_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as opened:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        child = Child("child_module", {})
        assert ask(child, "echo", LONG) == LONG
        child.end()


def test_interrupt_ends_the_child_so_that_answers_never_mix(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Child, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ask(child, "echo")
    assert not child.alive


def test_a_fork_of_the_parent_leaves_the_child_alone(child: Child) -> None:
    assert ask(child, "echo", 1) == 1
    if os.fork() == 0:  # pragma: no cover  another process
        child.end()
        os._exit(0)
    os.wait()
    assert ask(child, "echo", 3) == 3


PARENT = """
import os, signal, sys, time
from placement_gym.base.processes.child import Child
child = Child("child_module", {})
child.call({"echo": 1}, 20.0)
if sys.argv[1] == "stopped":
    os.kill(child.process.pid, signal.SIGSTOP)
    os.waitpid(child.process.pid, os.WUNTRACED)
if sys.argv[1] == "computing":
    child.send({"compute": 60}, 20.0)
    while child.heartbeat.read()[2] != "computing":
        time.sleep(0.01)
print(child.process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("state", ["running", "stopped", "computing"])
def test_child_ends_with_its_parent_even_if_stopped_or_busy(state: str) -> None:
    command = [sys.executable, "-c", PARENT, state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
    end = time.monotonic() + 5.0
    while Path(f"/proc/{pid}").exists() and "\tZ" not in status(pid):
        assert time.monotonic() < end, "it is still there"
        time.sleep(0.05)


def test_a_child_survives_the_thread_that_started_it() -> None:
    started: list[Child] = []

    def start() -> None:
        started.append(Child("child_module", {}))
        ask(started[0], "echo")

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert ask(started[0], "echo", 1) == 1
    started[0].end()


def status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "\tZ"


def test_a_stage_is_named_in_full() -> None:
    heartbeat = Heartbeat()
    heartbeat.touch("the first inference with counters")
    assert heartbeat.read()[2] == "the first inference with counters"
    heartbeat.close()


def test_an_end_is_described_by_its_signal_or_status() -> None:
    assert describe_exit(-signal.SIGSEGV) == "killed by SIGSEGV"
    assert describe_exit(-250) == "killed by signal 250"
    assert describe_exit(2) == "exited with status 2"


@pytest.mark.usefixtures("signals_on_the_main_stack")
def test_an_interrupt_while_a_child_starts_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def start_and_interrupt(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        Child("child_module", {})
    assert started[0].returncode is not None


def test_a_sign_is_never_read_half_written() -> None:
    heartbeat = Heartbeat()
    heartbeat.touch()
    code = f"""
from placement_gym.base.processes.heartbeat import Heartbeat
heartbeat = Heartbeat({heartbeat.descriptor})
for _ in range(100_000):
    heartbeat.touch_and_count("a stage")
"""
    writer = subprocess.Popen([sys.executable, "-c", code], pass_fds=[heartbeat.descriptor])
    oldest_s = 0.0
    while writer.poll() is None:
        oldest_s = max(oldest_s, heartbeat.read()[0])
    assert heartbeat.read()[1] == 100_000
    assert oldest_s < 60.0
    heartbeat.close()
