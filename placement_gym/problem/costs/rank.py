"""HEFT's upward rank: the length of the longest remaining path at mean costs."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import FloatArray
from placement_gym.graph.operators import Tensors


def upward_rank(ms: FloatArray, transfer_ms: FloatArray, tensors: Tensors) -> FloatArray:
    """(n,) longest path from each task to an end, the task included (Topcuoglu et al. 2002).

    Args:
        ms: (n, n_devices) times of tasks in topological order, averaged over devices.
        transfer_ms: (n_tensors, n_devices, n_devices) times, averaged over pairs of devices.
        tensors: What tasks read from each other.
    """
    n_devices = ms.shape[1]
    pairs = max(n_devices * (n_devices - 1), 1)
    moved: list[float] = (transfer_ms.sum(axis=(1, 2)) / pairs).tolist()
    own: list[float] = ms.mean(axis=1).tolist()
    rank, longest = list(own), [0.0] * len(own)
    tensor, reader = tensors.readings()
    maker = tensors.source[tensor]
    order = np.argsort(-maker, kind="stable")
    readings = zip(
        maker[order].tolist(), tensor[order].tolist(), reader[order].tolist(), strict=True
    )
    for source, what, target in readings:
        longest[source] = max(longest[source], moved[what] + rank[target])
        rank[source] = own[source] + longest[source]
    return np.array(rank)
