"""Whole problems from one seed, in splits that share neither seeds nor all families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placement_gym.base.arrays import round_significant
from placement_gym.base.errors import UserError, unknown_name
from placement_gym.graph.families.device_sets import sample_devices
from placement_gym.graph.generated import FAMILIES, MAX_SEED, build_family, name_graph
from placement_gym.graph.operators import OpGraph
from placement_gym.hardware.devices import DeviceSpec

SEEDS: Mapping[str, range] = {
    "validation": range(10_000),
    "test": range(10_000, 20_000),
    "train": range(20_000, MAX_SEED + 1),
}
"""Seeds of each split."""
DRAWN = (
    "layered",
    "series-parallel",
    "recurrent",
    "attention",
    "u-shaped",
    "branching",
    "experts",
)
"""Families of sampled problems where no others are given: with more of them, every seed would
mean another problem than before."""
HELD_OUT = ("branching", "experts")
"""Families of the test split alone."""
MIN_UNITS, MAX_UNITS, MAX_EDGES = 20, 400, 1000
"""Of every sampled problem, which are the sizes to pad to."""
SCHEDULES: tuple[tuple[dict[str, str], float], ...] = (
    ({"schedule": "list"}, 0.4),
    ({"schedule": "event"}, 0.2),
    ({"schedule": "serial"}, 0.25),
    ({"objective": "throughput"}, 0.15),
)
"""Arguments of an environment, and how often they are drawn."""


@dataclass(frozen=True)
class SampledProblem:
    """A problem that ``DevicePlacementSim-v0`` can be made with.

    Attributes:
        seed: What all of it follows from.
        split: ``"train"``, ``"validation"`` or ``"test"``.
        family: Of the graph.
        model: Name of the graph.
        devices: Devices with their limits, on which a feasible placement exists.
        semantics: ``schedule`` or ``objective``.
    """

    seed: int
    split: str
    family: str
    model: str
    devices: tuple[DeviceSpec, ...]
    semantics: Mapping[str, str]

    def env_kwargs(self) -> dict[str, Any]:
        """JSON-able arguments for ``gym.make("DevicePlacementSim-v0", **kwargs)``."""
        devices = [device.to_json() for device in self.devices]
        return {"model": self.model, "devices": devices, "granularity": "op", **self.semantics}


def sample_problem(
    rng: np.random.Generator, split: str = "train", families: Sequence[str] = DRAWN
) -> SampledProblem:
    """Draw a problem of a split; see ``make_problem``.

    Raises:
        UserError: The split or a family is unknown, or no family may be drawn.
    """
    if split not in SEEDS:
        raise unknown_name("split", split, SEEDS)
    return make_problem(int(rng.integers(SEEDS[split].start, SEEDS[split].stop)), families)


def make_problem(seed: int, families: Sequence[str] = DRAWN) -> SampledProblem:
    """Make the problem of a seed, the same on every call.

    Graphs have 20 to 400 operators, each a unit. Problems of the test split are of any of the
    families, the others of those that are not ``HELD_OUT``.

    Raises:
        UserError: The seed is out of range, a family is unknown, or none may be drawn.
    """
    split = split_of_seed(seed)
    for name in families:
        if name not in FAMILIES:
            raise unknown_name("family", name, FAMILIES)
    allowed = [name for name in families if split == "test" or name not in HELD_OUT]
    if not allowed:
        raise UserError(f"{HELD_OUT} are families of the test split alone: name others, too")
    rng = np.random.default_rng([seed])
    family = allowed[rng.integers(len(allowed))]
    graph = draw_graph(rng, family, seed)
    devices = sample_devices(rng, graph.weight_bytes.astype(np.float64))
    choice = rng.choice(len(SCHEDULES), p=[often for _, often in SCHEDULES])
    return SampledProblem(seed, split, family, graph.model, devices, SCHEDULES[choice][0])


def draw_graph(rng: np.random.Generator, family: str, seed: int) -> OpGraph:
    """Draw sizes, small ones as often as large ones, until a graph keeps to the limits."""
    while True:
        size = np.exp(rng.uniform(np.log(MIN_UNITS), np.log(MAX_UNITS)))
        n = int(round_significant(size, 6))
        graph = build_family(name_graph(family, n, seed))
        if MIN_UNITS <= len(graph) <= MAX_UNITS and graph.n_edges <= MAX_EDGES:
            return graph


def split_of_seed(seed: int) -> str:
    """The split that a seed belongs to.

    Raises:
        UserError: The seed is out of range.
    """
    for split, seeds in SEEDS.items():
        if seed in seeds:
            return split
    raise UserError(f"a seed is a number from 0 to {MAX_SEED}, not {seed}")
