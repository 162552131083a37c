from __future__ import annotations

import select
import subprocess
import sys

import openvino as ov
from fakes import assignment
from testbed import (
    CHESSBOARD,
    backend,
)

from placement_gym.backends.measured.lock import measurement_lock

WAITING_CHILD = """
import sys, gymnasium
env = gymnasium.make("placement_gym:DevicePlacement-v0", model="tiny", devices="cpu-testbed",
                     warmup=1, repeats=2)
print("ready", flush=True)
env.reset()
print("measured", flush=True)
"""


def test_a_second_process_waits_while_the_first_measures() -> None:
    with measurement_lock():
        child = subprocess.Popen(
            [sys.executable, "-c", WAITING_CHILD], stdout=subprocess.PIPE, text=True, bufsize=1
        )
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            waiting = not select.select([child.stdout], [], [], 2.0)[0]
        except BaseException:
            child.kill()
            raise
    printed, _ = child.communicate(timeout=60)
    assert waiting
    assert (printed, child.returncode) == ("measured\n", 0)


def test_the_lock_can_be_taken_again_by_its_holder() -> None:
    with measurement_lock(), measurement_lock():
        assert backend(ov.Core()).evaluate(assignment(CHESSBOARD)).feasible


def test_the_lock_is_free_again_when_its_holder_dies() -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os\nfrom placement_gym.backends.measured.lock import measurement_lock\n"
            "measurement_lock().acquire()\nprint('held', flush=True)\nos._exit(1)",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.communicate(timeout=60)[0] == "held\n"
    with measurement_lock().acquire(timeout=30):
        pass
