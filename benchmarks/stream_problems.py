"""The problems of ``stream.py``: generated graphs of 50 to 800 operators on two or four GPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placement_gym.base.arrays import round_significant
from placement_gym.graph.families.problems import (
    SEEDS,
    SampledProblem,
    make_accelerator,
    split_of_seed,
)
from placement_gym.graph.generated import build_family, name_graph
from placement_gym.hardware.devices import DeviceSpec

TRAINED = (
    "layered",
    "series-parallel",
    "recurrent",
    "attention",
    "u-shaped",
    "translation",
)
UNSEEN = ("branching", "experts", "dilated")
"""Families of the test split alone."""
MIN_UNITS, MAX_UNITS, MAX_EDGES, MAX_DEVICES = 50, 800, 2000, 5
SIZES = {"max_nodes": MAX_UNITS, "max_edges": MAX_EDGES, "max_devices": MAX_DEVICES}
UNLIMITED = 0.25
"""Share of problems without limits; in the others GPUs hold .8 to 2 models together."""
STREAM = 36
"""Second part of the seeds, so that problems are others than those of ``make_problem``."""


def draw_problem(
    rng: np.random.Generator, split: str = "train", largest: int = MAX_UNITS
) -> SampledProblem:
    """Draw a problem of a split, of at most so many units."""
    return make_problem(int(rng.integers(SEEDS[split].start, SEEDS[split].stop)), largest)


def make_problem(seed: int, largest: int = MAX_UNITS) -> SampledProblem:
    """Make the problem of a seed, which belongs to the seed's split; see ``SEEDS``."""
    split, rng = split_of_seed(seed), np.random.default_rng([seed, STREAM])
    families = TRAINED + UNSEEN if split == "test" else TRAINED
    family = families[rng.integers(len(families))]
    model = draw_model(rng, family, seed, largest)
    schedule = "list" if rng.random() < 0.5 else "event"
    return SampledProblem(seed, split, family, model, draw_devices(rng), {"schedule": schedule})


def draw_model(rng: np.random.Generator, family: str, seed: int, largest: int) -> str:
    """Draw sizes, small ones as often as large ones, until a graph keeps to the limits."""
    while True:
        size = np.exp(rng.uniform(np.log(MIN_UNITS), np.log(largest)))
        name = name_graph(family, int(round_significant(size, 6)), seed)
        graph = build_family(name)
        if MIN_UNITS <= len(graph) <= largest and graph.n_edges <= MAX_EDGES:
            return name


def draw_devices(rng: np.random.Generator) -> tuple[DeviceSpec, ...]:
    """Draw a host, and two or four equal GPUs with slow or fast links, with limits or without."""
    count, kind = int(rng.choice((2, 4))), str(rng.choice(("GPU", "GPU-NVLink")))
    together = np.exp(rng.uniform(np.log(0.8), np.log(2.0)))
    share = None
    if rng.random() >= UNLIMITED:
        share = float(round_significant(min(together / count, 1.0), 3))
    gpus = (replace(make_accelerator(kind, i), weight_share=share) for i in range(count))
    return (DeviceSpec("CPU", threads=8), *gpus)
