"""Small problems whose costs are tiny, huge, of many scales at once, or zero; and every solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from by_hand import (
    cost_table,
    draw_labels,
    draw_made,
    feasible_placements,
    grouped,
    made_graph,
    problem_of,
)
from overlapping import solve_by_beams
from pipelines import least_load_ms

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import FloatArray, IntArray
from placement_gym.graph import group
from placement_gym.problem.costs import PRESETS, CostTable, Semantics
from placement_gym.solvers import (
    Solution,
    lower_bound,
    minimum_cut,
    optimum_or_bound,
    serial_program,
)
from placement_gym.solvers.pipelines import exact_pipeline
from placement_gym.solvers.programs import max_load, solve_path_load

SECONDS = 60.0
KINDS = ("uniform", "operators", "entries", "devices", "zeros")
"""Of scales: one for all costs, one for each operator and tensor, for each entry, for each device;
or one for all, and half of the costs zero. ``"nothing"`` is another: all are zero."""
LIST, EVENT = Semantics("list", contention="none", order="priority"), Semantics("event")
LOAD, CALLS = PRESETS["tarnawski-throughput"], PRESETS["tarnawski-latency"]


def draw(
    seed: int,
    kind: str,
    semantics: Semantics,
    exponent: int | None = None,
    devices: int | None = None,
    free: bool = False,
    host: bool = False,
) -> SimulatedBackend:
    """A problem of 2 to 7 units.

    Args:
        seed: Of the random numbers.
        kind: See ``KINDS``, how costs between 1e-12 and 1e12 are spread.
        semantics: What the latency means.
        exponent: Of ten, the one scale of all costs; None draws it.
        devices: How many; None draws two or three.
        free: Without limits of memory and support.
        host: Whether the first device is a host.
    """
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 8)), devices or int(rng.integers(2, 4))
    graph = made_graph(n, draw_made(rng, n))
    n_tensors = len(graph.tensors.source)
    costs = cost_table(
        graph,
        rng.integers(0, 10, (n, d)) + rng.random((n, d)),
        rng.integers(1, 9, n_tensors),
        link_ms=rng.random((d, d)),
        link_ms_per_size=rng.random((d, d)),
        submodel_ms=0.5 * (semantics.schedule == "serial" and not free and seed % 3 == 0),
        host=[host, *[False] * (d - 1)],
    )
    drawn = rng.integers(-12, 13) if exponent is None else exponent
    costs = spread(costs, rng, kind, 10.0 ** float(drawn))
    limits = [None, *(None if free else float(share) for share in rng.choice([0.2, 0.5, 1], d - 1))]
    labels = draw_labels(rng, n)
    units = grouped(graph, labels) if seed % 4 == 1 else group(graph, "op")
    supported = rng.random((len(units), d)) < (1.0 if free else 0.8)
    supported[:, 0] = True
    held = rng.integers(0, 100, n)
    problem = problem_of(units, costs, held, supported, weight_share=limits)
    return SimulatedBackend(problem, costs, semantics)


def spread(costs: CostTable, rng: np.random.Generator, kind: str, scale: float) -> CostTable:
    """The same table at one scale or many."""
    n, d = costs.operator_ms.shape

    def factors(*shape: int) -> FloatArray:
        return 10.0 ** rng.uniform(-12, 12, shape)

    of_operator, of_tensor = np.full((n, 1), scale), np.full(len(costs.transfer_size), scale)
    if kind in ("operators", "entries"):
        of_operator = factors(n, 1 if kind == "operators" else d)
        of_tensor = factors(len(costs.transfer_size))
    if kind == "nothing":
        scale, of_operator, of_tensor = 0.0, 0.0 * of_operator, 0.0 * of_tensor
    if kind == "devices":
        of_operator = factors(1, d)
    if kind == "zeros":
        of_operator = of_operator * (rng.random((n, d)) < 0.5) * (rng.random() < 0.8)
        of_tensor = of_tensor * (rng.random(len(of_tensor)) < 0.5)
    link = scale if kind in ("uniform", "devices") else scale * (rng.random() < 0.3)
    return replace(
        costs,
        operator_ms=costs.operator_ms * of_operator,
        transfer_size=costs.transfer_size * of_tensor,
        link_ms=costs.link_ms * link,
        submodel_ms=costs.submodel_ms * scale,
    )


def relaxed_ms(backend: SimulatedBackend, place: IntArray) -> float:
    """The larger of the longest path and the largest load: what all overlapping schedules need."""
    costs, units = backend.costs, backend.problem.units
    on, tensors = place[units.of_operator], units.graph.tensors
    ms = costs.operator_ms[np.arange(len(on)), on]
    finish = ms.copy()
    tensor, reader = tensors.readings()
    for r in np.argsort(tensors.source[tensor], kind="stable"):
        maker, t = tensors.source[tensor[r]], tensor[r]
        late = finish[maker] + costs.transfer_ms[t, on[maker], on[reader[r]]] + ms[reader[r]]
        finish[reader[r]] = max(finish[reader[r]], late)
    return max(float(finish.max()), float(np.bincount(on, ms).max()))


class Case:
    """One solver on one problem, and what brute force says.

    Attributes:
        found: What the solver found.
        least_ms: The lowest latency of all placements that it may choose.
        latency_ms: Of the solver's placement in its own model; None without a placement.
    """

    def __init__(self, solver: str, seed: int, kind: str, exponent: int | None = None) -> None:
        self.backend = BACKENDS[solver](seed, kind, exponent)
        self.least_ms = self.find_least_ms(solver)
        self.found = SOLVERS[solver](self.backend)
        self.latency_ms = self.evaluate(solver)

    def find_least_ms(self, solver: str) -> float:
        """By brute force: of contiguous splits, else of all placements."""
        if solver == "pipeline":
            return least_load_ms(self.backend)
        _, latency_ms = feasible_placements(self.backend)
        return float(latency_ms.min(initial=np.inf))

    def evaluate(self, solver: str) -> float | None:
        place = self.found.assignment
        if place is None:
            return None
        if solver == "path-load" and not self.backend.problem.infeasibility(place):
            return relaxed_ms(self.backend, place)
        return evaluate_ms(self.backend, place)


def solve_pipeline(backend: SimulatedBackend) -> Solution:
    """The split, its load as a bound: of contiguous ones it is called the best."""
    place = exact_pipeline(backend.problem, backend.costs)
    return Solution(place, backend.evaluate_ignoring_limits(place).latency_ms, proven=True)


def solve_gap(backend: SimulatedBackend) -> Solution:
    """What a report says: an optimum in place of a proof."""
    optimum_ms, bound_ms = optimum_or_bound(
        backend.problem,
        backend.costs,
        backend.semantics,
        [evaluate_ms(backend, backend.problem.single(0))],
        lambda place: evaluate_ms(backend, place),
    )
    if optimum_ms is None:
        return Solution(None, bound_ms, proven=False)
    places, latency_ms = feasible_placements(backend)
    return Solution(places[np.abs(latency_ms - optimum_ms).argmin()], bound_ms, proven=True)


def evaluate_ms(backend: SimulatedBackend, place: IntArray) -> float:
    """The latency of a placement, infinite if it is infeasible."""
    infeasible = backend.problem.infeasibility(place)
    return np.inf if infeasible else backend.evaluate_ignoring_limits(place).latency_ms


SOLVERS: dict[str, Callable[[SimulatedBackend], Solution]] = {
    "serial": lambda b: serial_program(b.problem, b.costs, SECONDS),
    "min-cut": lambda b: minimum_cut(b.problem.units, b.costs),
    "path-load": lambda b: solve_path_load(b.problem, b.costs, SECONDS),
    "max-load": lambda b: max_load(b.problem, b.costs, None, 0.0, SECONDS),
    "pipeline": solve_pipeline,
    "beam": lambda b: solve_by_beams(b, (3, 10_000), SECONDS),
    "bound": lambda b: lower_bound(b.problem, b.costs, b.semantics, SECONDS),
    "gap": solve_gap,
}
ANY = (Semantics(), LIST, EVENT, LOAD, CALLS)
BACKENDS: dict[str, Callable[[int, str, int | None], SimulatedBackend]] = {
    "serial": lambda seed, kind, e: draw(seed, kind, Semantics(), e),
    "min-cut": lambda seed, kind, e: draw(seed, kind, Semantics(), e, devices=2, free=True),
    "path-load": lambda seed, kind, e: draw(seed, kind, LIST, e),
    "max-load": lambda seed, kind, e: draw(seed, kind, LOAD, e, host=seed % 2 > 0),
    "pipeline": lambda seed, kind, e: draw(seed, kind, LOAD, e, host=seed % 2 > 0),
    "beam": lambda seed, kind, e: draw(seed, kind, LIST, e),
    "bound": lambda seed, kind, e: draw(seed, kind, ANY[seed // 5 % 5], e, host=seed // 5 % 5 > 2),
    "gap": lambda seed, kind, e: draw(seed, kind, ANY[seed // 5 % 5], e, host=seed // 5 % 5 > 2),
}
