"""What Ctrl-C leaves behind, and how to go on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from placement_gym.backends.measured.backend import MeasuredBackend
from placement_gym.backends.measured.profile import kept_profile


@contextmanager
def explain_interrupt(backend: MeasuredBackend, quick: bool = False) -> Iterator[None]:
    """Say on standard error, when interrupted, whether there is a profile to go on from.

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
            else f"the profile is kept in {profile}: the same command, without --refresh, goes on "
            "from there"
        )
        print(f"Interrupted; {kept}.", file=sys.stderr, flush=True)
        raise
