"""The distribution of devices that are chosen one after another."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from agents.common.distribution import UnitCategorical
from agents.rnn.networks import Encoded, Seq2Seq


@dataclass(frozen=True, eq=False)
class Sequence:
    """Each device depends on those before it.

    Attributes:
        network: Which chooses.
        encoded: What it reads.
        weight: (B, M) bool, which places decide.
        allowed: (B, M, D) bool; None allows all.
    """

    network: Seq2Seq
    encoded: Encoded
    weight: Tensor
    allowed: Tensor | None = None

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, M) devices, 0 where nothing is decided."""
        return self.network.devices(self.encoded, self.allowed, deterministic) * self.weight

    def given(self, actions: Tensor) -> UnitCategorical:
        """Each place's distribution, given the (B, M) devices before it."""
        logits = self.network.logits(self.encoded, actions)
        return UnitCategorical(logits, self.weight, None, self.allowed)

    def without(self, allowed: Tensor) -> Sequence:
        """The choice among (B, M, D) bool alone."""
        both = allowed if self.allowed is None else allowed & self.allowed
        return replace(self, allowed=both)
