"""One thread for numerical libraries, in every place where runs are compared by wall time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from placement_gym.hardware.devices import usable_cores

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@contextmanager
def limit_threads() -> Iterator[None]:
    """Limit PyTorch, child processes and libraries that are loaded inside to one thread.

    Afterwards the environment variables and PyTorch's threads are as before.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else usable_cores()
    os.environ.update(ONE_THREAD)
    _set_torch_threads(1)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _set_torch_threads(threads)


def _set_torch_threads(threads: int) -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
