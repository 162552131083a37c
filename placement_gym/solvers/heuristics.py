"""Simple placements: searches start from them, plans measure them, learners must beat them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import combinations, permutations, product
from pkgutil import resolve_name

import numpy as np

from placement_gym.base import FloatArray, IntArray, UserError
from placement_gym.problem import MAX_CELLS, Interval, Problem, cut_grid, window
from placement_gym.problem.costs import CostTable

Named = tuple[str, IntArray]
SIMPLE = {
    "fill-in-order": "placement_gym.solvers.fill:fill_in_order",
    "heft": "placement_gym.solvers.list_scheduling:heft",
    "critical-path": "placement_gym.solvers.list_scheduling:critical_path",
    "m-etf": "placement_gym.solvers.list_scheduling:m_etf",
    "dpl": "placement_gym.solvers.pipelines.pipeline:linear_pipeline",
    "dp": "placement_gym.solvers.pipelines.pipeline:exact_pipeline",
    "model-per-device": "placement_gym.solvers.heuristics:model_per_device",
}
"""Name -> module and name of a function of a problem and its costs."""
MANY_UNITS, VERY_MANY_UNITS = 2_000, 20_000
"""Above the first, m-ETF and the best contiguous split take longer than the search that starts from
them; above the second, all list schedules do."""
MOST_UNITS = {
    "m-etf": MANY_UNITS,
    "dpl": MANY_UNITS,
    "heft": VERY_MANY_UNITS,
    "critical-path": VERY_MANY_UNITS,
}
MAX_ASSIGNMENTS = 2**16
"""Maximum number of assignments of models to devices. Hand-tuned."""


def propose_simple(problem: Problem, costs: CostTable, *names: str) -> Iterator[Named]:
    """Yield the named placements of ``SIMPLE``, each computed on demand.

    Omitted are those that are too slow for so many units, pipelines and whole models that fit no
    memory, and pipelines of graphs that are too wide. List schedules and fillings may exceed
    limits.
    """
    for name in names:
        if problem.n_units <= MOST_UNITS.get(name, problem.n_units):
            solve: Callable[[Problem, CostTable], IntArray] = resolve_name(SIMPLE[name])
            with suppress(UserError):
                yield name, solve(problem, costs)


def propose_single_devices(problem: Problem) -> Iterator[Named]:
    """Yield every device alone, even if it lacks an operator or memory."""
    for device, name in enumerate(problem.device_names):
        yield f"{name} alone", problem.single(device)


def propose_prefixes(problem: Problem, cells: int = MAX_CELLS) -> IntArray:
    """(k, n_units) every prefix of a grid of cuts, all units included, on every ordered pair."""
    return place_on_all_pairs(problem, [(0, cut) for cut in cut_grid(problem, cells)[1:]])


def propose_windows(problem: Problem, cells: int = MAX_CELLS, inner: bool = False) -> IntArray:
    """(k, n_units) every window between two cuts of a grid, on every ordered pair of devices.

    The grid has at most ``cells`` intervals; ``inner`` omits windows that begin with the first
    unit, which are prefixes.
    """
    return place_on_all_pairs(problem, combinations(cut_grid(problem, cells)[inner:], 2))


def place_on_all_pairs(problem: Problem, intervals: Iterable[Interval]) -> IntArray:
    """(k, n_units) each interval inside each device with the rest on each other device."""
    intervals, pairs = list(intervals), permutations(range(len(problem.devices)), 2)
    rows = [window(problem, interval, *pair) for pair in pairs for interval in intervals]
    return np.array(rows, dtype=np.int64).reshape(-1, problem.n_units)


def model_per_device(problem: Problem, costs: CostTable) -> IntArray:
    """(n_units,) devices: each model of a union on the one that minimises the largest load.

    No tensor moves, so a device's load is the sum of its models' times in a round. Equal loads are
    decided by the order of devices. Raises a ``UserError`` if there are too many assignments, or
    none respects support and memory.
    """
    ms, model = time_models(problem, costs)
    n_models, n_devices = ms.shape
    if n_devices**n_models > MAX_ASSIGNMENTS:
        raise UserError(
            f"{n_models} models on {n_devices} devices have more than {MAX_ASSIGNMENTS} "
            "assignments: use the agent search, which moves parts of models"
        )
    options = np.array([*product(range(n_devices), repeat=n_models)], dtype=np.int64)
    loads = np.zeros((len(options), n_devices))
    for number, devices in enumerate(options.T):
        loads[np.arange(len(options)), devices] += ms[number, devices]
    for option in np.argsort(loads.max(axis=1), kind="stable").tolist():
        assignment = options[option][model]
        if not problem.infeasibility(assignment):
            return assignment
    raise UserError(
        "whole models do not all fit on the devices: use an agent that splits models, as search, "
        "or raise the limits"
    )


def time_models(problem: Problem, costs: CostTable) -> tuple[FloatArray, IntArray]:
    """(n_models, n_devices) ms of each model in a round, and (n_units,) the model of each unit."""
    units = problem.units
    model = np.empty(len(units), dtype=np.int64)
    model[units.of_operator] = units.graph.model_of
    rates = units.graph.rates
    unit_ms = costs.unit_ms(units)
    ms = np.stack([unit_ms[model == number].sum(axis=0) for number in range(len(rates))])
    return ms + rates[:, None] * costs.submodel_ms, model
