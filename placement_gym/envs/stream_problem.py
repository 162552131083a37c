"""Problems of a stream, made when they are first placed, and kept; and actions that are weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from placement_gym.backends import PENALTY
from placement_gym.backends.simulated import SimulatedBackend, build_simulated_problem
from placement_gym.base import FloatArray, IntArray, UInt8, UserError
from placement_gym.envs.observation import Observer
from placement_gym.graph.families import SampledProblem
from placement_gym.models import ModelSpec
from placement_gym.problem.costs import parse_schedule
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers import fill_in_order
from placement_gym.solvers.list_policy import (
    N_WEIGHTS,
    ListScheduler,
    compute_statistics,
    earliest_finish,
)

if TYPE_CHECKING:
    from placement_gym.problem.costs import CostGraph

CACHE_SIZE = 1024
"""Problems in the cache, a fifth of a gigabyte."""
MakeProblem = Callable[[int], "SampledProblem | CostGraph"]
"""Makes the problem of a seed."""


class StreamProblem:
    """A generated problem with all that an episode needs.

    Args:
        sampled: Its description.
        sizes: ``max_nodes``, ``max_edges`` and ``max_devices`` to pad observations to.

    Attributes:
        scheduler: Its list scheduler, which has the problem and the simulator.
        statistics: (``N_STATISTICS``,) float32.
        host: (n_units,) the reference device for each unit.
        reference_ms: Latency of the reference device, memory ignored.
        floor_ms: Latency that rewards compare with: of the best of ``solvers.earliest_finish``,
            repaired where it does not fit, filling in order and single devices.
    """

    def __init__(self, sampled: SampledProblem | CostGraph, sizes: Mapping[str, int]) -> None:
        self.sampled, self.sizes = sampled, sizes
        kwargs = sampled.env_kwargs()
        spec = ModelSpec(kwargs["model"], kwargs["granularity"], "folded", None, None, None)
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
        """See the class; the reference's latency if none of these is feasible."""
        listed_ms, _ = self.repair(earliest_finish(self.problem, self.simulator))
        simple = [fill_in_order(self.problem, self.simulator.costs)]
        simple += [self.problem.single(device) for device in range(len(self.problem.devices))]
        costs = [self.evaluate(place)[0] for place in simple]
        best = min(listed_ms, *costs)
        return float(best) if np.isfinite(best) else self.reference_ms

    def evaluate(self, place: IntArray | UInt8) -> tuple[float, UInt8]:
        """The cost in ms of (n_units,) devices, infinite if infeasible; and the devices."""
        devices = np.ascontiguousarray(place, dtype=np.uint8)
        return cost_ms(self.problem, self.simulator, devices), devices

    def repair(self, place: IntArray) -> tuple[float, UInt8]:
        """As ``evaluate``, after what does not fit has moved."""
        cost, devices = self.evaluate(self.problem.move_unsupported(place))
        if np.isfinite(cost):
            return cost, devices
        return self.evaluate(self.scheduler.repair(devices[None])[0])

    def latency_ms(self, cost: float) -> float:
        """The latency of an info: finite, ten floors where nothing fits."""
        return cost if np.isfinite(cost) else PENALTY * self.floor_ms

    @cached_property
    def backend(self) -> SimulatedBackend:
        """The backend that evaluates whole placements for the info."""
        simulator = self.simulator
        return SimulatedBackend(self.problem, simulator.costs, simulator.semantics)

    @cached_property
    def observer(self) -> Observer:
        """The observer of the padded graph and its devices, which also lays out actions."""
        costs, units = self.simulator.costs, self.problem.units
        return Observer(
            self.problem,
            horizon=1,
            unit_ms=costs.unit_ms(units),
            devices=True,
            costs=costs,
            **dict[str, Any](self.sizes),
        )


@lru_cache(CACHE_SIZE)
def find_problem(make: MakeProblem, seed: int, sizes: tuple[tuple[str, int], ...]) -> StreamProblem:
    """Make the problem of a seed, or return it where any environment has made it."""
    return StreamProblem(make(seed), dict(sizes))


def make_weights_space() -> spaces.Box:
    """The space of actions: for each weight a number from -1 to 1, see ``scheduler.SCALES``."""
    return spaces.Box(-1.0, 1.0, (N_WEIGHTS,), np.float32)


def read_weights(actions: ArrayLike, number: int = 1) -> FloatArray:
    """The (number, ``N_WEIGHTS``) argument of a ``ListScheduler``, from as many actions.

    Raises:
        UserError: They have another shape, or numbers that are not finite.
    """
    weights = np.asarray(actions, dtype=np.float64)
    if weights.shape != (number, N_WEIGHTS) or not np.isfinite(weights).all():
        raise UserError(f"an action is {N_WEIGHTS} numbers from -1 to 1, not {actions!r:.200}")
    return np.minimum(np.maximum(weights, -1.0), 1.0)
