"""Agents that always fail, for tests of what becomes of that."""

import os
from typing import Any, NoReturn


def make(env: Any, seed: int) -> NoReturn:
    raise RuntimeError("nothing works today")


def tell_threads(env: Any, seed: int) -> NoReturn:
    import torch

    threads = torch.get_num_threads()
    raise RuntimeError(f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')}, torch {threads}")
