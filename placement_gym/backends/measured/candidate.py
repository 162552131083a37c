"""A compiled placement that is ready to be timed, and the measurement its samples amount to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.backends.measured import timing
from placement_gym.backends.measured.inferences import Inferences, PhaseTimes
from placement_gym.backends.protocol import Measurement


@dataclass(frozen=True)
class Compilation:
    """Facts about a compiled placement, and the seconds that compiling took.

    Once it is timed it also has the latencies of a scenario's phases. With several requests in
    flight it has their number, and the streams of its device, or of each stage's.
    """

    n_submodels: int
    n_submodels_expected: int
    n_transfers: int
    transfer_bytes: int
    memory_bytes: tuple[int, ...]
    compile_s: float
    prefill_ms: float | None = None
    token_ms: float | None = None
    handover_ms: float | None = None
    requests: int | None = None
    streams: int | None = None


@dataclass(frozen=True)
class Candidate:
    """A compiled placement, ready to run."""

    inferences: Inferences
    compilation: Compilation

    def run(self) -> None:
        self.inferences.run()

    def forget(self) -> None:
        """Restart the timing of phases."""
        self.inferences.forget()

    def outputs(self) -> list[NDArray[Any]]:
        return self.inferences.outputs()

    def summarize(self) -> Compilation:
        """Return its compilation, with the times of its phases once it has been timed."""
        phases = self.inferences.phases_ms()
        return replace(self.compilation, **phases._asdict()) if phases else self.compilation


def join_rounds(rounds: Sequence[Compilation]) -> Compilation:
    """The last compilation of a placement, with the medians of its phases over all of them."""
    last = rounds[-1]
    known = [name for name in PhaseTimes._fields if getattr(last, name) is not None]
    medians: dict[str, Any] = {
        name: float(np.median([getattr(one, name) for one in rounds])) for name in known
    }
    return replace(last, **medians)


def summarize(
    compilation: Compilation,
    reference: timing.Samples,
    times: timing.Samples,
    measure_s: float = 0.0,
) -> Measurement:
    """The measurement that the samples of a placement and its reference amount to."""
    return Measurement(
        latency_ms=float(np.median(times)),
        reference_ms=float(np.median(reference)),
        latency_p90_ms=float(np.percentile(times, 90)),
        noise=timing.noise(reference, times),
        measure_s=measure_s,
        **asdict(compilation),
    )
