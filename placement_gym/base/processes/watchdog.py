"""Child processes that end with their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

POLL_S = 0.1
PR_SET_PDEATHSIG = 1


def exit_with_parent(parent: int, of_main_thread: bool = False) -> None:
    """End this process as soon as its parent has ended, even if that one was killed.

    Args:
        parent: Process id of the one that started this one.
        of_main_thread: Whether its main thread did. Linux then kills this process, whatever it
            is doing. Otherwise a thread of this process ends it, which has to wait for calls that
            keep Python's lock: Linux would kill it as soon as the thread that started it ends.
    """
    if of_main_thread and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
