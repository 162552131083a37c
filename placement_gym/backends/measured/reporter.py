"""Signs of life and messages of a worker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placement_gym.backends import Measurement
from placement_gym.base import show_waiting


def print_to_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Reporter:
    """Receiver of signs of life and messages.

    Attributes:
        beat: Called with the name of each step as it begins.
        print_message: Called with a message for the user.
        count: Called as ``OnRounds``.
        wait: Called every second of a wait with its reason, and with an empty text afterwards.
    """

    beat: Callable[[str], object] = lambda stage: None
    print_message: Callable[[str], object] = print_to_stderr
    count: Callable[[float, Sequence[Measurement]], object] = lambda rounds, measured: None
    wait: Callable[[str], object] = show_waiting
