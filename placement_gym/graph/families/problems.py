"""Problems from seeds: graphs, and one to five devices with loose to barely feasible limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from placement_gym.base import FloatArray, IntArray, UserError, check_choice, round_significant
from placement_gym.graph import FAMILIES, MAX_SEED, OpGraph, build_family, name_graph
from placement_gym.hardware import NATIVE_PRECISION, DeviceSpec

SEEDS: Mapping[str, range] = {
    "validation": range(10_000),
    "test": range(10_000, 20_000),
    "train": range(20_000, MAX_SEED + 1),
}
"""Split -> its seeds."""
DRAWN = ("layered", "series-parallel", "recurrent", "attention", "u-shaped", "branching", "experts")
"""Default families of sampled problems. Further ones would change the problem of every seed."""
HELD_OUT = ("branching", "experts")
"""Families of the test split only."""
MIN_UNITS, MAX_UNITS, MAX_EDGES = 20, 400, 1000
"""Sizes of sampled problems; observations are padded to the maximum ones."""
SCHEDULES: tuple[tuple[dict[str, str], float], ...] = (
    ({"schedule": "list"}, 0.4),
    ({"schedule": "event"}, 0.2),
    ({"schedule": "serial"}, 0.25),
    ({"objective": "throughput"}, 0.15),
)
"""Arguments of an environment, and their probabilities."""
MAX_SET_SIZE = 5
"""Maximum number of sampled devices. Hand-tuned."""
SHARES_OF_COUNTS = (0.02, 0.33, 0.29, 0.18, 0.18)
"""Probabilities of one device, two, and so on."""
ACCELERATORS = ("iGPU", "GPU", "GPU-PCIe5", "GPU-NVLink", "NPU")
"""Rooflines, whose links range from an integrated GPU's and PCIe to NVLink."""
THREADS = (2, 4, 8)
UNLIMITED, LIMITED_HOST = 0.15, 0.3
"""Probability of no limits; and, if there are limits, of one on the host."""
SLACK_FACTOR = 1.1
"""Factor by which limits grow until a placement fits. Hand-tuned."""


@dataclass(frozen=True)
class SampledProblem:
    """A problem that ``DevicePlacementSim-v0`` can be made with.

    Attributes:
        seed: Seed of the problem.
        split: ``"train"``, ``"validation"`` or ``"test"``.
        family: Family of the graph.
        model: Name of the graph.
        devices: Devices with limits; a feasible placement exists.
        semantics: ``schedule`` or ``objective``.
    """

    seed: int
    split: str
    family: str
    model: str
    devices: tuple[DeviceSpec, ...]
    semantics: Mapping[str, str]

    def env_kwargs(self) -> dict[str, Any]:
        """Return arguments of ``gym.make("DevicePlacementSim-v0", **kwargs)`` for JSON."""
        devices = [device.to_json() for device in self.devices]
        return {"model": self.model, "devices": devices, "granularity": "op", **self.semantics}


def make_problem(seed: int, families: Sequence[str] = DRAWN) -> SampledProblem:
    """Make the problem of a seed, the same on every call.

    Graphs have 20 to 400 operators, each a unit. Only problems of the test split may be of the
    families in ``HELD_OUT``.

    Raises:
        UserError: The seed is out of range, a family is unknown, or none may be drawn.
    """
    split = split_of_seed(seed)
    for name in families:
        check_choice("family", name, FAMILIES)
    allowed = [name for name in families if split == "test" or name not in HELD_OUT]
    if not allowed:
        raise UserError(f"{HELD_OUT} are families of the test split alone: name others, too")
    rng = np.random.default_rng([seed])
    family = allowed[rng.integers(len(allowed))]
    graph = draw_graph(rng, family, seed)
    devices = sample_devices(rng, graph.weight_bytes.astype(np.float64))
    choice = rng.choice(len(SCHEDULES), p=[often for _, often in SCHEDULES])
    return SampledProblem(seed, split, family, graph.model, devices, SCHEDULES[choice][0])


def draw_graph(
    rng: np.random.Generator,
    family: str,
    seed: int,
    sizes: tuple[int, int] = (MIN_UNITS, MAX_UNITS),
    max_edges: int = MAX_EDGES,
) -> OpGraph:
    """Draw log-uniform sizes until a graph keeps to the limits."""
    min_units, max_units = sizes
    while True:
        size = np.exp(rng.uniform(np.log(min_units), np.log(max_units)))
        graph = build_family(name_graph(family, int(round_significant(size, 6)), seed))
        if min_units <= len(graph) <= max_units and graph.n_edges <= max_edges:
            return graph


def split_of_seed(seed: int) -> str:
    """Return the split of a seed, or raise ``UserError``."""
    for split, seeds in SEEDS.items():
        if seed in seeds:
            return split
    raise UserError(f"a seed is a number from 0 to {MAX_SEED}, not {seed}")


def sample_devices(rng: np.random.Generator, unit_bytes: FloatArray) -> tuple[DeviceSpec, ...]:
    """Draw devices on which units of (n_units,) bytes fit."""
    count = 1 + int(rng.choice(MAX_SET_SIZE, p=SHARES_OF_COUNTS))
    devices = draw_devices(rng, count)
    if count == 1 or not unit_bytes.any() or rng.random() < UNLIMITED:
        return devices
    shares = draw_limits(rng, devices)
    while fill_best(unit_bytes, shares * unit_bytes.sum()) is None:
        shares = np.minimum(np.ceil(SLACK_FACTOR * shares * 1e3) / 1e3, 1.0)
    return tuple(
        replace(device, weight_share=float(share)) if share < 1.0 else device
        for device, share in zip(devices, shares, strict=True)
    )


def draw_devices(rng: np.random.Generator, count: int) -> tuple[DeviceSpec, ...]:
    """Draw a host and accelerators, or accelerators only; half of the sets have one kind."""
    host = count == 1 or rng.random() < 0.85
    n_accelerators = count - host
    kinds = rng.choice(ACCELERATORS, n_accelerators)
    if n_accelerators and rng.random() < 0.5:
        kinds[:] = kinds[0]
    threads = int(rng.choice(THREADS))
    hosts = (DeviceSpec("CPU", threads=threads),) if host else ()
    return (*hosts, *(make_accelerator(str(kind), i) for i, kind in enumerate(kinds)))


def make_accelerator(roofline: str, index: int) -> DeviceSpec:
    plugin = "NPU" if roofline == "NPU" else "GPU"
    precision = NATIVE_PRECISION.get(plugin, "f32")
    return DeviceSpec(f"{plugin}.{index}", precision=precision, roofline=roofline)


def draw_limits(rng: np.random.Generator, devices: tuple[DeviceSpec, ...]) -> FloatArray:
    """(n_devices,) limits as shares of the model, 1 without; their sum is at least 1.02."""
    limited = np.array([not device.host or rng.random() < LIMITED_HOST for device in devices])
    if not limited.all():
        shares = np.exp(rng.uniform(np.log(0.05), np.log(0.9), len(devices)))
    else:
        parts = rng.dirichlet(np.full(len(devices), 5.0))
        shares = parts * np.exp(rng.uniform(np.log(1.02), np.log(2.5)))
    shares = round_significant(shares, 6)
    return np.where(limited, np.minimum(np.ceil(shares * 1e3) / 1e3, 1.0), 1.0)


def fill_best(unit_bytes: FloatArray, limits_bytes: FloatArray) -> IntArray | None:
    """(n_units,) devices by best fit, largest units first; None if a unit does not fit."""
    room = limits_bytes.astype(np.float64)
    device = np.zeros(len(unit_bytes), dtype=np.int64)
    for unit in np.argsort(-unit_bytes, kind="stable"):
        free_bytes = room - unit_bytes[unit]
        if free_bytes.max() < 0.0:
            return None
        device[unit] = np.where(free_bytes >= 0.0, free_bytes, np.inf).argmin()
        room[device[unit]] -= unit_bytes[unit]
    return device
