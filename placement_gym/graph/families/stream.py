"""Problems of ``DevicePlacementStream-v0``: graphs of 50 to 800 operators on a host and GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placement_gym.base import round_significant
from placement_gym.graph.families.problems import (
    SampledProblem,
    draw_graph,
    make_accelerator,
    split_of_seed,
)
from placement_gym.hardware import DeviceSpec

TRAINED = ("layered", "series-parallel", "recurrent", "attention", "u-shaped", "translation")
UNSEEN = ("branching", "experts", "dilated")
"""Families of the test split only."""
MIN_UNITS, MAX_UNITS, MAX_EDGES, MAX_DEVICES = 50, 800, 2000, 5
UNLIMITED = 0.25
"""Probability of no limits; otherwise the GPUs together hold 0.8 to 2 models."""
STREAM = 36
"""Second part of seeds, so that problems differ from those of ``make_problem``."""


@dataclass(frozen=True)
class StreamProblems:
    """Makes the problem of a seed, the same on every call.

    Attributes:
        families: Families of graphs; None takes ``TRAINED``, for the test split also ``UNSEEN``.
        sizes: Minimum and maximum number of operators, drawn log-uniformly.
        devices: Devices; None draws a host and two or four equal GPUs.
        schedule: Schedule; empty draws ``"list"`` or ``"event"``.
    """

    families: tuple[str, ...] | None = None
    sizes: tuple[int, int] = (MIN_UNITS, MAX_UNITS)
    devices: tuple[DeviceSpec, ...] | None = None
    schedule: str = ""

    def __call__(self, seed: int) -> SampledProblem:
        """Make the problem of a seed; its split is that of ``problems.SEEDS``."""
        split, rng = split_of_seed(seed), np.random.default_rng([seed, STREAM])
        families = self.families or (TRAINED + UNSEEN if split == "test" else TRAINED)
        family = families[rng.integers(len(families))]
        model = draw_graph(rng, family, seed, self.sizes, MAX_EDGES).model
        schedule = "list" if rng.random() < 0.5 else "event"
        devices = self.devices or draw_devices(rng)
        semantics = {"schedule": self.schedule or schedule}
        return SampledProblem(seed, split, family, model, devices, semantics)


def draw_devices(rng: np.random.Generator) -> tuple[DeviceSpec, ...]:
    """Draw a host and two or four equal GPUs, with slow or fast links and maybe limits."""
    count, kind = int(rng.choice((2, 4))), str(rng.choice(("GPU", "GPU-NVLink")))
    together = np.exp(rng.uniform(np.log(0.8), np.log(2.0)))
    share = None
    if rng.random() >= UNLIMITED:
        share = float(round_significant(min(together / count, 1.0), 3))
    gpus = (replace(make_accelerator(kind, i), weight_share=share) for i in range(count))
    return (DeviceSpec("CPU", threads=8), *gpus)
