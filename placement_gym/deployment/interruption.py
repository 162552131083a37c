"""Messages of interrupts: what is kept, and how to continue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from placement_gym.backends.measured.measuring import MeasuringBackend
from placement_gym.backends.measured.profile import kept_profile


@contextmanager
def explain_interrupt(backend: MeasuringBackend, quick: bool = False) -> Iterator[None]:
    """Give an interrupt a message that says whether there is a profile to continue from.

    Args:
        backend: The backend that is profiled and measured.
        quick: Whether a quick profile is what the work starts from.
    """
    try:
        yield
    except KeyboardInterrupt:
        profile = kept_profile(backend, quick)
        kept = (
            "no profile was finished, so nothing is kept: the same command starts again"
            if profile is None
            else f"the profile is kept in {profile}: the same command without --refresh uses it"
        )
        raise KeyboardInterrupt(kept) from None
