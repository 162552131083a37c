"""List sampling: list scheduling with random preferences and a random price of memory.

A list scheduler makes many small choices that are almost even. Independent noise would split what
belongs together, so noise is drawn for runs of the rank order: some samples cut it into a few runs,
others between all tasks. And it fills the fastest device with what comes first, whatever that
saves; a price of memory, another one for each sample, leaves room for what gains most per byte.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.arrays import FloatArray, IntArray, UInt32
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.decoder import Decoder, decode

PRICES = (0.01, 3.0)
"""Least and greatest price of a device's memory, in the time of all units at mean costs."""
CERTAIN = 1e12
"""A preference that outweighs every finish."""


class Noise(NamedTuple):
    """What makes samples differ.

    Attributes:
        run: (k, n_tasks) uint32, the row of ``preference`` of each task in rank order.
        preference: (n_rows, n_devices) preferences of each run for devices.
        price: (k,) price of a device's memory in each sample.
    """

    run: UInt32
    preference: FloatArray
    price: FloatArray


def list_sampling(
    problem: Problem,
    costs: CostTable,
    rng: np.random.Generator,
    samples: int,
    offset: FloatArray | None = None,
) -> IntArray:
    """Sample placements; the first has no noise.

    Args:
        problem: Units, devices, support and limits.
        costs: Costs of the units' operators.
        rng: Source of the noise.
        samples: How many, k.
        offset: (n_units, n_devices) further preferences, of a learned scorer for instance; a
            preference of 1 is worth the mean time of a unit. None means zeros.

    Returns:
        (k, n_units) devices. Limits hold wherever a unit finds room in rank order.
    """
    decoder = Decoder.of(problem, costs)
    noise = draw_noise(decoder, rng, samples)
    noise.price[:1] = 0.0
    noise.preference[noise.run[:1]] = 0.0
    return decode_noise(decoder, noise, offset)


def decode_noise(decoder: Decoder, noise: Noise, offset: FloatArray | None = None) -> IntArray:
    """(k, n_units) the placements that noise decodes to."""
    added = np.zeros_like(decoder.unit_ms) if offset is None else offset
    return decode(decoder, noise.run, noise.preference, noise.price, added)


def draw_noise(decoder: Decoder, rng: np.random.Generator, samples: int) -> Noise:
    """Draw Gumbel noise that is constant over runs of the rank order, and prices of memory.

    Each sample has its own probability of a cut, n to the power of minus a uniform number; its own
    scale, exp of a normal number minus 1; and its own price, log-uniform within ``PRICES``.
    """
    n, n_devices = decoder.ms.shape
    cut = rng.random((samples, n)) < n ** -rng.random((samples, 1))
    cut[:, 0] = True
    run = np.cumsum(cut.ravel()).reshape(cut.shape) - 1
    scale = np.repeat(np.exp(rng.normal(size=samples) - 1.0), cut.sum(axis=1))
    gumbel = rng.gumbel(size=(len(scale), n_devices)) * scale[:, None]
    least, greatest = PRICES
    price = len(decoder.unit_ms) * least * (greatest / least) ** rng.random(samples)
    return Noise(run.astype(np.uint32), gumbel, price)


def keep_where_room(decoder: Decoder, wanted: IntArray) -> IntArray:
    """Let (k, n_units) placements keep their devices as far as those support and hold the units.

    In rank order, a unit without room goes where it finishes first.
    """
    run = wanted[:, decoder.unit].astype(np.uint32)
    certain = CERTAIN * np.eye(decoder.ms.shape[1])
    return decode_noise(decoder, Noise(run, certain, np.zeros(len(wanted))))


def rebuild_windows(decoder: Decoder, placements: IntArray, rng: np.random.Generator) -> IntArray:
    """Sample the devices in a random window of the rank order anew in each of (k, n_units).

    The other units keep their devices where there is room. The lengths of windows are log-uniform.
    """
    k, (n, n_devices) = len(placements), decoder.ms.shape
    noise = draw_noise(decoder, rng, k)
    kept = placements[:, decoder.unit] + len(noise.preference)
    length = np.ceil(n ** rng.random((k, 1))).astype(np.int64)
    begin = np.maximum(rng.integers(1 - length, n), 0)
    inside = (np.arange(n) >= begin) & (np.arange(n) < begin + length)
    preference = np.concatenate([noise.preference, CERTAIN * np.eye(n_devices)])
    run = np.where(inside, noise.run, kept).astype(np.uint32)
    return decode_noise(decoder, Noise(run, preference, noise.price))
