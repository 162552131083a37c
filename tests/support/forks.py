"""What a fork of this process answers."""

from __future__ import annotations

import os
from collections.abc import Callable


def start_fork(action: Callable[[], object]) -> Callable[[], str]:
    """Begin an action in a fork; returns what waits for its end and gives its result as text."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:  # pragma: no cover  another process
        try:
            answer = str(action())
        except BaseException as error:
            answer = repr(error)
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)

    def finish() -> str:
        with os.fdopen(reading) as pipe:
            answer = pipe.read()
        os.waitpid(process, 0)
        return answer

    return finish
