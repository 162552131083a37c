"""Rounds of a race on a progress bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from placement_gym.backends import Measurement
from placement_gym.backends.measured import MeasuredBackend, OnRounds
from placement_gym.base import progress_bar


@contextmanager
def show_rounds(backend: MeasuredBackend, description: str, quiet: bool) -> Iterator[OnRounds]:
    """Show the rounds of ``backend.remeasure`` in this block; long rounds are fewer.

    Yields:
        The function that shows them, for callers with their own callback.
    """
    protocol = backend.protocol
    with progress_bar(
        protocol.final_compiles, "rounds at most", quiet, description=description
    ) as progress:
        task = progress.tasks[0]

        def show(rounds: float, _: Sequence[Measurement] = ()) -> None:
            # Not by `update`, which would discard the times of earlier rounds.
            task.total = protocol.most_rounds((task.elapsed or 0.0) / rounds)
            progress.update(task.id, completed=rounds)

        backend.on_rounds = show
        yield show
