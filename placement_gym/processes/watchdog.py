"""Child processes that end with their parent."""

from __future__ import annotations

import os
import threading
import time

POLL_S = 0.1


def exit_with_parent(parent: int) -> None:
    """End this process as soon as its parent has ended, even if that one was killed.

    Args:
        parent: Process id of the one that started this one.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
