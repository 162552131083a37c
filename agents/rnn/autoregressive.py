"""A distribution of devices that are chosen one after another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from agents.common.distribution import UnitCategorical
from agents.rnn.networks import Encoded, Seq2Seq


@dataclass(frozen=True, eq=False)
class AutoregressiveDevices:
    """Devices of a sequence, each conditioned on those before it.

    Attributes:
        network: The network that chooses.
        encoded: The encoded sequences.
        weight: (B, M) bool, False for padding.
        allowed: (B, M, D) bool, devices that may be chosen; None allows all.
    """

    network: Seq2Seq
    encoded: Encoded
    weight: Tensor
    allowed: Tensor | None = None

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, M) devices, 0 for padding."""
        return self.network.choose_devices(self.encoded, self.allowed, deterministic) * self.weight

    def conditioned_on(self, actions: Tensor) -> UnitCategorical:
        """The distribution of each device, conditioned on the (B, M) devices before it."""
        logits = self.network.compute_logits(self.encoded, actions)
        return UnitCategorical(logits, self.weight, None, self.allowed_after(actions))

    def allowed_after(self, actions: Tensor) -> Tensor | None:
        """(B, M, D) bool, devices with room after the (B, M) choices before; None allows all.

        What was chosen is never impossible: another order may have found room for it.
        """
        if self.encoded.room is None:
            return self.allowed
        room = self.encoded.room.take(self.encoded.row)
        fits = room.restrict(self.allowed, room.before(actions), room.held)
        chosen = torch.nn.functional.one_hot(actions.long(), fits.shape[2]).bool()
        return fits | (chosen if self.allowed is None else chosen & self.allowed)

    def restricted_to(self, allowed: Tensor) -> AutoregressiveDevices:
        """The distribution with only the devices that a (B, M, D) bool mask allows."""
        both = allowed if self.allowed is None else allowed & self.allowed
        return replace(self, allowed=both)
