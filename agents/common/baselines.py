"""What a return is compared with before it reinforces anything."""

from __future__ import annotations

import numpy as np

from placement_gym.arrays import FloatArray, IntArray

BASELINES = ("none", "moving_average", "per_step", "leave_one_out", "self_critical", "critic")


class MovingAverages:
    """A mean of returns for each key, which forgets.

    Args:
        decay: Weight of what was known before.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.known: dict[int, float] = {}

    def __call__(self, returns: FloatArray, keys: IntArray) -> FloatArray:
        """The mean for each return, these returns included.

        Args:
            returns: Any shape.
            keys: Of the same shape.
        """
        result = np.zeros(returns.shape)
        for key in np.unique(keys).tolist():
            of_key = keys == key
            now = float(returns[of_key].mean())
            before = self.known.get(key, now)
            self.known[key] = self.decay * before + (1.0 - self.decay) * now
            result[of_key] = self.known[key]
        return result


def leave_one_out(returns: FloatArray, keys: IntArray, otherwise: FloatArray) -> FloatArray:
    """For each return the mean of the others with the same key.

    Args:
        returns: Any shape.
        keys: Of the same shape.
        otherwise: Of the same shape; what is taken where there are no others.
    """
    result = otherwise.astype(np.float64)
    for key in np.unique(keys):
        of_key = keys == key
        k = int(of_key.sum())
        if k > 1:
            result[of_key] = (returns[of_key].sum() - returns[of_key]) / (k - 1)
    return result
