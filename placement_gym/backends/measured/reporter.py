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
        on_heartbeat: Called with the name of each step as it begins.
        print_message: Called with a message for the user.
        on_round: Called as ``OnRounds``.
        on_wait: Called every second of a wait with its reason, and with an empty text afterwards.
    """

    on_heartbeat: Callable[[str], object] = lambda stage: None
    print_message: Callable[[str], object] = print_to_stderr
    on_round: Callable[[float, Sequence[Measurement]], object] = lambda rounds, measured: None
    on_wait: Callable[[str], object] = show_waiting
