"""One torch thread for training on small graphs, where more threads only cost time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from gymnasium import spaces

SMALL_GRAPH = 5_000
"""Units below which one thread was measured to be faster than several."""
SETTINGS_OF_THE_USER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def limit_threads(observation_space: spaces.Space[Any]) -> Iterator[None]:
    """Use one torch thread inside the context if graphs are small; restore the number after it.

    ``REINFORCE.learn`` and ``Post.learn`` do this by themselves and log ``time/torch_threads``.
    SB3's algorithms do not::

        with limit_threads(env.observation_space):
            PPO(HSDAGPolicy, env).learn(10_000)

    Nothing is changed if the user has set ``OMP_NUM_THREADS`` or ``MKL_NUM_THREADS``, or if
    observations are not of a placement environment.

    Args:
        observation_space: Its ``node_mask`` tells the (padded) number of units.
    """
    if not is_small(observation_space) or any(name in os.environ for name in SETTINGS_OF_THE_USER):
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def is_small(observation_space: spaces.Space[Any]) -> bool:
    """Whether observations are of a graph with fewer than ``SMALL_GRAPH`` units."""
    known = observation_space.spaces if isinstance(observation_space, spaces.Dict) else {}
    if "node_mask" not in known:
        return False
    (n_slots,) = known["node_mask"].shape or (0,)
    return n_slots < SMALL_GRAPH
