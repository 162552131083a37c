"""Placements that may become a plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from placement_gym.backends import Measurement
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray, show_step
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import (
    Named,
    RepairPrices,
    merge_submodels,
    minimum_cut,
    pipeline_parallel,
    propose_prefixes,
    propose_simple,
    propose_single_devices,
    propose_windows,
    repair,
    serial_program,
)
from placement_gym.solvers.search import search

N_PROPOSALS = 100
"""Evaluations of the search, a second or two of work; a time limit would make plans vary."""
FULL_SHARE = 0.9
"""Splits that fill a device beyond this share of its memory are varied. Hand-tuned."""
SMALLER_SHARES, LARGER_SHARE = (0.9, 0.75), 1.1
"""Bytes that variants put on such a device, relative to the split's. Hand-tuned."""
MEANINGS = {
    "milp": "the optimum of the profile by a mixed-integer program, or its best solution",
    "search": "the best placement of a local search in the profile",
    "min-cut": "the optimum of the profile by a minimum cut",
    "prefix": "the first units on one device, the rest on another",
    "window": "one run of units on another device",
    "fill-in-order": "devices filled one after another",
    "PIPELINE_PARALLEL": "the placement of OpenVINO's HETERO with this policy",
    "AUTO": "the device that OpenVINO's AUTO chooses for each model",
    "dp": "the best split into contiguous stages",
    "dpl": "the best split into stages along one order",
    "model-per-device": "whole models, in the best assignment to devices",
    "phases": "one placement for the prompt and one for tokens",
    "within reported memory": "no more on integrated devices than they report",
    "less on": "a variant with fewer bytes on a device that is nearly full",
    "more on": "a variant with more bytes on a device that is nearly full",
}
"""Meanings of labels, by their first words, or by the words after a comma and a number."""


@dataclass(frozen=True)
class Candidate:
    """A placement that may become the plan.

    Attributes:
        label: Its name in tables.
        assignment: (n_units,) device indices; (2, n_units) for a pair, prompts and tokens.
        predicted_ms: Latency by the twin.
        also: Other names of the same placement.
        measured: Its measurement, if it was measured.
        error: Why it does not fit or run, or an empty string.
    """

    label: str
    assignment: IntArray
    predicted_ms: float
    also: tuple[str, ...] = ()
    measured: Measurement | None = None
    error: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.label, *self.also)

    @property
    def alone(self) -> bool:
        """Whether it uses a single device."""
        return len(set(self.assignment.ravel().tolist())) == 1

    @property
    def result(self) -> Measurement:
        """The measurement of a candidate that ran."""
        assert self.measured is not None
        return self.measured


def explain_candidates(candidates: Iterable[Candidate]) -> dict[str, str]:
    """Explain the names of candidates, except single devices."""
    names = [name for one in candidates for name in one.names]
    words = {re.split("[ ,]", name)[0] for name in names}
    words |= {
        word for name in names for word in re.findall(r", (?:\d+ % )?(\D+ (?:on|memory))", name)
    }
    return {name: meaning for name, meaning in MEANINGS.items() if name in words}


def propose_candidates(
    twin: SimulatedBackend, time_limit_s: float
) -> tuple[list[Candidate], float]:
    """Propose distinct placements to measure, and bound the twin's latency from below (ms)."""
    problem, costs = twin.problem, twin.costs
    solved, bound_ms = solve_program(problem, costs, time_limit_s, "milp")
    named = [*list_single_devices(problem), *solved, *propose_by_search(twin)]
    # With limited memory: a solution within what integrated devices report, which is no limit, and
    # placements that fill one device after another, as other tools do.
    reported = limit_to_reported(problem)
    if reported.binding:
        if reported is not problem:
            label = "milp, within reported memory"
            named += solve_program(reported, costs, time_limit_s, label)[0]
        named += propose_simple(reported, costs, "fill-in-order")
        named.append(("PIPELINE_PARALLEL", pipeline_parallel(reported, weigh_units(problem))))
    show_step("solving: min-cut, prefixes and windows")
    if len(problem.devices) == 2 and problem.supports_all and not problem.binding:
        cut = minimum_cut(problem.units, costs).assignment
        assert cut is not None  # there always is one
        named.append(("min-cut", cut))
    prefixes, windows = propose_prefixes(problem), propose_windows(problem)
    for label, placements in (("prefix", prefixes), ("window", windows)):
        latency_ms, feasible = twin.evaluate_batch_exactly(placements)
        if feasible.any():
            named.append((label, placements[np.where(feasible, latency_ms, np.inf).argmin()]))
    return collect(twin, named), bound_ms


def limit_to_reported(problem: Problem) -> Problem:
    """Limit integrated devices to the memory that they report, instead of their larger pool."""
    if np.isinf(problem.reported_bytes).all():
        return problem
    return problem.with_limits(np.minimum(problem.limits_bytes, problem.reported_bytes))


def weigh_units(problem: Problem) -> IntArray:
    """(n_units,) bytes of weights, without state."""
    graph = problem.units.graph
    weights = graph.weight_bytes - (0 if graph.state_bytes is None else graph.state_bytes)
    return np.bincount(problem.units.of_operator, weights, problem.n_units).astype(np.int64)


def solve_program(
    problem: Problem, costs: CostTable, time_limit_s: float, label: str
) -> tuple[list[Named], float]:
    """Run the mixed-integer program; return the labelled solution, if any, and the bound in ms."""
    show_step(f"solving: {label}, at most {time_limit_s:.0f} s")
    solved = serial_program(problem, costs, time_limit_s)
    return [] if solved.assignment is None else [(label, solved.assignment)], solved.bound_ms


def list_single_devices(problem: Problem) -> list[Named]:
    """List the devices that run the whole model alone."""
    singles = zip(propose_single_devices(problem), problem.runs_all, strict=True)
    return [single for single, runs_all in singles if runs_all]


def propose_by_search(twin: SimulatedBackend) -> list[Named]:
    """Search for a placement; none if the best one exceeds memory."""
    problem = twin.problem
    show_step(f"solving: search, {N_PROPOSALS} placements")
    result = search(problem, twin.costs, twin.semantics, evaluations=N_PROPOSALS)
    excess = twin.infeasibility(result.assignment)
    return [] if excess else [("search", result.assignment)]


def collect(
    twin: SimulatedBackend, labelled: Sequence[Named], earlier: Sequence[Candidate] = ()
) -> list[Candidate]:
    """Make candidates, each placement once, after earlier ones.

    Submodels beyond the number that constraints allow are merged first.
    """
    distinct = {candidate.assignment.tobytes(): candidate for candidate in earlier}
    for label, placement in labelled:
        assignment = merge_submodels(twin.problem, twin.simulator, placement)
        predicted_ms = twin.evaluate_ignoring_limits(assignment).latency_ms
        entry = Candidate(label, assignment, predicted_ms)
        first = distinct.setdefault(assignment.tobytes(), entry)
        if label not in first.names:
            distinct[assignment.tobytes()] = replace(first, also=(*first.also, label))
    return list(distinct.values())


def propose_pipelines(twin: SimulatedBackend, time_limit_s: float) -> tuple[list[Candidate], float]:
    """Propose candidates for throughput; predictions of single devices assume one stream."""
    from placement_gym.solvers import lower_bound

    problem, costs = twin.problem, twin.costs
    placements = [
        *list_single_devices(problem),
        *find_pipelines(problem, costs),
        *propose_by_search(twin),
    ]
    if problem.units.graph.models:
        placements += propose_simple(problem, costs, "model-per-device")
    show_step(f"solving: bound, at most {time_limit_s:.0f} s")
    bound_ms = lower_bound(problem, costs, twin.semantics, time_limit_s).bound_ms
    return collect(twin, placements), bound_ms


def find_pipelines(problem: Problem, costs: CostTable) -> Iterator[Named]:
    """Yield the best contiguous splits, over all orders and along one order, if they exist."""
    for label in ("dp", "dpl"):
        show_step(f"solving: {label}, without a time limit")
        yield from propose_simple(problem, costs, label)


def add_variants(twin: SimulatedBackend, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Add variants of the best candidates that nearly fill a device.

    Moved or shared memory makes a nearly full device suddenly slower. A profile never fills a
    device, so the twin does not predict this. The best candidates are the fastest single device,
    the fastest split, and the fastest split within the memory that devices report.
    """
    problem, reported = twin.problem, limit_to_reported(twin.problem)
    fitting = [one for one in candidates if not problem.infeasibility(one.assignment)]
    fitting.sort(key=lambda one: one.predicted_ms)
    splits = [one for one in fitting if not one.alone]
    modest = [one for one in splits if not reported.infeasibility(one.assignment)]
    best = [*[one for one in fitting if one.alone][:1], *splits[:1], *modest[:1]]
    variants = [
        (label, assignment)
        for finalist in {one.label: one for one in best}.values()
        for label, assignment in vary(twin, finalist)
        if np.ptp(assignment) and not problem.infeasibility(assignment)
    ]
    return collect(twin, variants, candidates)


def vary(twin: SimulatedBackend, split: Candidate) -> Iterator[Named]:
    """Yield variants of a split with less, or more, on each device that it nearly fills."""
    problem = twin.problem
    holds = np.minimum(problem.limits_bytes, problem.reported_bytes)
    device_bytes = problem.memory_bytes(split.assignment)
    for device in np.flatnonzero(device_bytes > FULL_SHARE * holds).tolist():
        name = problem.device_names[device]
        for share in SMALLER_SHARES:
            limits = np.full(len(holds), np.inf)
            limits[device] = share * min(device_bytes[device], holds[device])
            label = f"{split.label}, {round(100 * (1 - share))} % less on {name}"
            yield label, move_least(twin, problem.with_limits(limits), split)
        if problem.reported_bytes[device] <= problem.limits_bytes[device]:  # more may fit
            rest = max(problem.unit_bytes.sum() - LARGER_SHARE * device_bytes[device], 0.0)
            label = f"{split.label}, {round(100 * (LARGER_SHARE - 1))} % more on {name}"
            yield label, move_least(twin, limit_others(problem, device, rest), split)


def limit_others(problem: Problem, device: int, limit_bytes: float) -> Problem:
    """Limit the total memory of all devices but one."""
    unlimited = problem.with_limits(np.full(len(problem.devices), np.inf))
    limited = tuple(
        spec
        if index == device
        else replace(spec, memory_pool="others", memory_bytes=int(limit_bytes))
        for index, spec in enumerate(unlimited.devices)
    )
    return replace(problem, devices=limited)


def move_least(twin: SimulatedBackend, problem: Problem, split: Candidate) -> IntArray:
    """Move units until a split fits a problem, at the least cost in the profile."""
    return repair(problem, split.assignment[None], RepairPrices.from_costs(problem, twin.costs))[0]
