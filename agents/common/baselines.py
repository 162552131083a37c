"""Baselines that are subtracted from returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from placement_gym.base import FloatArray, IntArray
from placement_gym.envs import read_graph_id

BASELINES = ("none", "moving_average", "per_step", "leave_one_out")
DECAY = 0.9
"""Weight of the previous average (grappler's ``hierarchical_controller.py``, bl_dec)."""
STEP_BITS = 32
"""Bits of the step in the key of a baseline; the ``graph_id`` above them has at most 24."""


def find_keys(buffer: Any, space: Any) -> tuple[IntArray, IntArray]:
    """(n_steps, n_envs) key of each action's graph and step, and its position in the episode."""
    observations = buffer.observations
    if isinstance(observations, dict) and "step" in observations:
        step = space["step"].read(observations["step"])[..., 0]
        return (read_graph_id(observations)[..., 0] << STEP_BITS) + step, step
    rows = np.arange(buffer.buffer_size)[:, None]
    begin = np.maximum.accumulate(np.where(buffer.episode_starts, rows, 0), axis=0)
    return rows - begin, rows - begin  # without an id, all observations are of one graph


def is_tied(rewards: FloatArray) -> bool:
    """Return whether there are several rewards and all are equal, so there is nothing to learn."""
    return rewards.size > 1 and bool((rewards == rewards.flat[0]).all())


class MovingAverages:
    """An exponential moving average of the returns of each key. Saved models name this class."""

    def __init__(self) -> None:
        self.known: dict[int, float] = {}

    def __call__(self, returns: FloatArray, keys: IntArray) -> FloatArray:
        """Update the averages by returns; return that of each return, by keys of the same shape."""
        result = np.zeros(returns.shape)
        for key in np.unique(keys).tolist():
            of_key = keys == key
            mean = float(returns[of_key].mean())
            # The first mean starts the average: from 0 it would be biased for tens of rollouts.
            average = self.known.get(key, mean)
            self.known[key] = DECAY * average + (1.0 - DECAY) * mean
            result[of_key] = self.known[key]
        return result


def leave_one_out(returns: FloatArray, keys: IntArray, fallback: FloatArray) -> FloatArray:
    """For each return, the mean of the others with its key; ``fallback`` where there are none."""
    result = fallback.astype(np.float64)
    for key in np.unique(keys):
        of_key = keys == key
        k = int(of_key.sum())
        # Without itself, so that the baseline does not depend on the action (Kool et al. 2019).
        if k > 1:
            result[of_key] = (returns[of_key].sum() - returns[of_key]) / (k - 1)
    return result


def normalize(advantages: FloatArray, keys: IntArray, min_spread: float) -> FloatArray:
    """Advantages with a mean square of one in each graph of (n_steps, n_envs) keys of actions."""
    graphs, scaled = keys >> STEP_BITS, advantages.copy()
    for graph in np.unique(graphs):  # each by its own scale, so all count alike
        in_graph = graphs == graph
        spread = np.sqrt((advantages[in_graph] ** 2).mean())
        scaled[in_graph] /= max(spread, min_spread) + 1e-8
    return scaled
