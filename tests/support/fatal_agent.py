"""Agents that do what none should, and one that is an object."""

import os
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np


def make(env: Any, seed: int) -> NoReturn:
    """Ends its process."""
    os._exit(9)


def first_device(observation: Any, *_: Any, **__: Any) -> tuple[Any, None]:
    return np.zeros_like(observation["placement"]), None


HARMLESS = SimpleNamespace(predict=first_device)


def secretive(env: Any, seed: int) -> Any:
    """Searches while it predicts."""

    def predict(observation: Any, *_: Any, **__: Any) -> tuple[Any, None]:
        for _ in range(50):
            env.unwrapped.evaluate(env.unwrapped.assignment)
        return first_device(observation)

    return SimpleNamespace(predict=predict)
