"""A compiled placement, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placement_gym.backends.measured.inferences import Inferences, Outputs


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
        """Begin to time phases anew."""
        self.inferences.forget()

    def outputs(self) -> Outputs:
        return self.inferences.outputs()

    def summarize(self) -> Compilation:
        """What is known of it now that it has been timed."""
        prefill_ms, token_ms = self.inferences.phases_ms() or (None, None)
        return replace(self.compilation, prefill_ms=prefill_ms, token_ms=token_ms)
