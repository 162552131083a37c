"""Channels: which transfers wait for each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.base.arrays import Int32


class Channels(NamedTuple):
    """The channels that a transfer between two devices occupies.

    Attributes:
        n: Number of channels.
        send: (n_devices, n_devices) int32, first channel of the transfer, or -1 if it never
            waits.
        receive: (n_devices, n_devices) int32, second channel, or -1.
    """

    n: int
    send: Int32
    receive: Int32

    @classmethod
    def of(cls, contention: str, n_devices: int) -> Channels:
        """The channels of ``Semantics.contention``."""
        source, target = np.indices((n_devices, n_devices), dtype=np.int32).copy()
        none = np.full_like(source, -1)
        if contention == "none":
            return cls(1, none, none)
        if contention == "dest":
            return cls(n_devices, target, none)
        if contention == "both":
            return cls(n_devices, source, target)
        if contention == "link":
            low, high = np.minimum(source, target), np.maximum(source, target)
            return cls(n_devices**2, low * np.int32(n_devices) + high, none)
        return cls(n_devices, source, none)
