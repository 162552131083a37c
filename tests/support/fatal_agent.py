"""Agents that do what none should, and one that is an object."""

import os
import signal
import sys
import time
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np


def crash(env: Any, seed: int) -> None:
    """Crashes its process."""
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(env: Any, seed: int) -> None:
    """Never returns."""
    while True:
        time.sleep(1)


def leave(env: Any, seed: int) -> NoReturn:
    """Takes its own end for that of the program."""
    sys.exit(3)


def first_device(observation: Any, *_: Any, **__: Any) -> tuple[Any, None]:
    return np.zeros(observation["placement"].shape, dtype=np.int64), None


HARMLESS = SimpleNamespace(predict=first_device)


def secretive(env: Any, seed: int) -> Any:
    """Searches while it predicts."""

    def predict(observation: Any, *_: Any, **__: Any) -> tuple[Any, None]:
        for _ in range(50):
            env.unwrapped.evaluate(env.unwrapped.assignment)
        return first_device(observation)

    return SimpleNamespace(predict=predict)
