"""The problems of a stream, which are kept once made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends import PENALTY
from placement_gym.backends.simulated import SimulatedBackend, build_simulated_problem
from placement_gym.base import IntArray, UInt8
from placement_gym.envs.observation import Observer
from placement_gym.graph.families import SampledProblem
from placement_gym.models import ModelSpec
from placement_gym.problem.costs import parse_schedule
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers import fill_in_order
from placement_gym.solvers.list_policy import (
    ListScheduler,
    compute_statistics,
    earliest_finish,
)

if TYPE_CHECKING:
    from placement_gym.problem.costs import CostGraph

CACHE_SIZE = 1024
"""Number of problems to keep, 0.2 GB."""
MakeProblem = Callable[[int], "SampledProblem | CostGraph"]


class StreamProblem:
    """A generated problem with what an episode needs.

    Args:
        sampled: The description of the problem.
        sizes: ``max_nodes``, ``max_edges`` and ``max_devices`` to pad observations to.

    Attributes:
        scheduler: Makes list schedules.
        statistics: (``N_STATISTICS``,) float32 observation.
        host: (n_units,) the reference device for each unit.
        reference_ms: Latency of the reference device, without memory limits.
        floor_ms: Lowest latency of repaired list scheduling by earliest finish, filling in order
            and single devices; the reference's if all are infeasible.
    """

    def __init__(self, sampled: SampledProblem | CostGraph, sizes: Mapping[str, int]) -> None:
        self.sampled, self.sizes = sampled, sizes
        kwargs = sampled.env_kwargs()
        spec = ModelSpec(kwargs["model"], kwargs["granularity"])
        twin = build_simulated_problem(spec, kwargs["devices"])
        semantics = parse_schedule(
            kwargs.get("schedule", twin.schedule), kwargs.get("objective", "latency")
        )
        self.problem = twin.problem
        self.simulator = Simulator(twin.problem.units, twin.costs, semantics)
        self.scheduler = ListScheduler(self.problem, self.simulator)
        self.statistics = compute_statistics(self.scheduler.view)
        self.host = self.problem.single(self.problem.reference_device)
        self.reference_ms = self.simulator.latency_ms(self.host.astype(np.uint8))
        self.floor_ms = self.compute_floor()

    def compute_floor(self) -> float:
        listed_ms, _ = self.repair(earliest_finish(self.problem, self.simulator))
        simple = [fill_in_order(self.problem, self.simulator.costs)]
        simple += [self.problem.single(device) for device in range(len(self.problem.devices))]
        costs = [self.evaluate(place)[0] for place in simple]
        best = min(listed_ms, *costs)
        return float(best) if np.isfinite(best) else self.reference_ms

    def evaluate(self, place: IntArray | UInt8) -> tuple[float, UInt8]:
        """The cost in ms of (n_units,) devices, infinite if infeasible, and the devices."""
        devices = np.ascontiguousarray(place, dtype=np.uint8)
        return cost_ms(self.problem, self.simulator, devices), devices

    def repair(self, place: IntArray) -> tuple[float, UInt8]:
        """Evaluate (n_units,) devices after moving units that do not fit."""
        cost, devices = self.evaluate(self.problem.move_unsupported(place))
        if np.isfinite(cost):
            return cost, devices
        return self.evaluate(self.scheduler.repair(devices[None])[0])

    def latency_ms(self, cost: float) -> float:
        """The latency of a cost: ten times the floor if infeasible."""
        return cost if np.isfinite(cost) else PENALTY * self.floor_ms

    @cached_property
    def backend(self) -> SimulatedBackend:
        """Evaluates placements for ``render``."""
        simulator = self.simulator
        return SimulatedBackend(self.problem, simulator.costs, simulator.semantics)

    @cached_property
    def observer(self) -> Observer:
        """Makes observations of the graph, and reads actions."""
        costs, units = self.simulator.costs, self.problem.units
        return Observer(
            self.problem,
            horizon=1,
            unit_ms=costs.unit_ms(units),
            observe_devices=True,
            costs=costs,
            **dict[str, Any](self.sizes),
        )


@lru_cache(CACHE_SIZE)
def find_problem(make: MakeProblem, seed: int, sizes: tuple[tuple[str, int], ...]) -> StreamProblem:
    """Make the problem of a seed, once for all environments."""
    return StreamProblem(make(seed), dict(sizes))
