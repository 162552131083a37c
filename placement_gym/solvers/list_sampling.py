"""List sampling: list scheduling with random preferences and a random price of memory.

A list scheduler makes many small choices between devices that are almost equally good. Independent
noise would split what belongs together, so noise is drawn for runs of the rank order: some samples
cut it into a few runs, others between all tasks. A list scheduler also fills the fastest device
with whatever comes first, however little that saves; a price of memory leaves room for what gains
the most per byte. The right price differs between problems, so each sample draws its own, or takes
one near that of a good earlier sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.arrays import BoolArray, FloatArray, IntArray, UInt32
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.decoder import Decoder, decode

PRICES = (0.01, 1.0)
"""Lowest and highest price of a device's memory, relative to the mean time of all units."""
SPREAD = 0.3
"""Standard deviation of the logarithm of a price around that of the earlier sample."""
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
    problem: Problem, costs: CostTable, rng: np.random.Generator, samples: int
) -> IntArray:
    """Sample placements; the first has no noise.

    Args:
        problem: Units, devices, support and limits.
        costs: Costs of the units' operators.
        rng: Source of the noise.
        samples: Number of samples, k.

    Returns:
        (k, n_units) devices. Limits hold wherever a unit finds room in rank order.
    """
    decoder = Decoder.of(problem, costs)
    noise = draw_noise(decoder, rng, draw_prices(decoder, rng, samples))
    silence_first(noise)
    return decode_noise(decoder, noise)


def decode_noise(decoder: Decoder, noise: Noise) -> IntArray:
    """(k, n_units) the placements that noise decodes to."""
    return decode(decoder, noise.run, noise.preference, noise.price)


def draw_prices(decoder: Decoder, rng: np.random.Generator, samples: int) -> FloatArray:
    """(k,) prices of memory, log-uniform within ``PRICES``."""
    least, greatest = PRICES
    return len(decoder.unit_ms) * least * (greatest / least) ** rng.random(samples)


def vary_prices(prices: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(k,) prices near (k,) given ones."""
    return prices * np.exp(SPREAD * rng.normal(size=len(prices)))


def draw_noise(decoder: Decoder, rng: np.random.Generator, price: FloatArray) -> Noise:
    """Draw Gumbel noise that is constant over runs of the rank order, for (k,) prices.

    Each sample has its own probability of a cut, n to the power of minus a uniform number, and its
    own scale, exp of a normal number minus 1.
    """
    k, (n, n_devices) = len(price), decoder.ms.shape
    cut = rng.random((k, n)) < n ** -rng.random((k, 1))
    cut[:, 0] = True
    run = np.cumsum(cut.ravel()).reshape(cut.shape) - 1
    scale = np.repeat(np.exp(rng.normal(size=k) - 1.0), cut.sum(axis=1))
    gumbel = rng.gumbel(size=(len(scale), n_devices)) * scale[:, None]
    return Noise(run.astype(np.uint32), gumbel, price)


def silence_first(noise: Noise) -> None:
    """Remove the noise and the price of the first sample, in place."""
    noise.price[:1] = 0.0
    noise.preference[noise.run[:1]] = 0.0


def draw_windows_of_noise(
    decoder: Decoder, placements: IntArray, price: FloatArray, rng: np.random.Generator
) -> Noise:
    """Draw noise in one or two random windows of the rank order, certainty elsewhere.

    Units outside the windows keep their devices where there is room.

    Args:
        decoder: The problem.
        placements: (k, n_units) devices that are certain outside the windows.
        price: (k,) price of memory inside the windows.
        rng: Source of windows and noise.
    """
    noise = draw_noise(decoder, rng, price)
    inside = draw_windows(decoder, rng, len(price))
    inside |= draw_windows(decoder, rng, len(price)) & (rng.random((len(price), 1)) < 0.5)
    kept = placements[:, decoder.unit] + len(noise.preference)
    run = np.where(inside, noise.run, kept).astype(np.uint32)
    certain = CERTAIN * np.eye(decoder.ms.shape[1])
    return Noise(run, np.concatenate([noise.preference, certain]), price)


def draw_windows(decoder: Decoder, rng: np.random.Generator, k: int) -> BoolArray:
    """(k, n_tasks) bool, a window of the rank order each; lengths are log-uniform."""
    n = len(decoder.unit)
    length = np.ceil(n ** rng.random((k, 1))).astype(np.int64)
    begin = np.maximum(rng.integers(1 - length, n), 0)
    inside: BoolArray = (np.arange(n) >= begin) & (np.arange(n) < begin + length)
    return inside
