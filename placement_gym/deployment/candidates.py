"""Placements that may become a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError
from placement_gym.deployment.memory import (
    charge_copies,
    explain_excess,
    weigh_units,
    within_reported,
)
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.patterns import prefixes, windows
from placement_gym.problem.problem import Problem
from placement_gym.solvers.bounds import lower_bound
from placement_gym.solvers.cuts import minimum_cut
from placement_gym.solvers.fill import fill_in_order, pipeline_parallel
from placement_gym.solvers.milp import serial_program
from placement_gym.solvers.pipelines.ideal_stages import PipelineMemoryError
from placement_gym.solvers.pipelines.ideals import TooManyIdealsError
from placement_gym.solvers.pipelines.pipeline import exact_pipeline, linear_pipeline
from placement_gym.solvers.search import search

SEARCHED = 100
"""Placements that the search proposes, so that equal profiles make equal plans."""


@dataclass(frozen=True)
class Candidate:
    """A placement that may become the plan.

    Attributes:
        label: Its name in tables.
        assignment: (n_units,) device indices; or (2, n_units) those for prompts and for tokens.
        predicted_ms: Latency by the twin.
        also: Other names of the same placement.
    """

    label: str
    assignment: IntArray
    predicted_ms: float
    also: tuple[str, ...] = ()

    @property
    def alone(self) -> bool:
        """True for a single device."""
        return len(set(self.assignment.ravel().tolist())) == 1


def propose_candidates(
    twin: SimulatedBackend, time_limit_s: float
) -> tuple[list[Candidate], float]:
    """Distinct placements worth measuring, and the latency that the twin says none can beat."""
    problem, costs = twin.problem, twin.costs
    named = list_single_devices(problem)
    reported = within_reported(problem)
    solved = serial_program(problem, costs, time_limit_s)
    if solved.assignment is not None:
        named.append(("milp", solved.assignment))
        if explain_excess(problem, solved.assignment):
            counted = serial_program(charge_copies(problem), costs, time_limit_s).assignment
            named += [] if counted is None else [("milp, copies counted", counted)]
    named += propose_by_search(twin)
    if reported is not problem and reported.binding:
        modest = serial_program(reported, costs, time_limit_s).assignment
        named += [] if modest is None else [("milp, within what is reported", modest)]
    if reported.binding:
        named.append(("fill-in-order", fill_in_order(reported, costs)))
        named.append(("PIPELINE_PARALLEL", pipeline_parallel(reported, weigh_units(problem))))
    if len(problem.devices) == 2 and problem.supports_all and not problem.binding:
        cut = minimum_cut(problem.units, costs).assignment
        assert cut is not None  # there always is one
        named.append(("min-cut", cut))
    for label, placements in (("prefix", prefixes(problem)), ("window", windows(problem))):
        latency_ms, feasible = twin.evaluate_batch_exactly(placements)
        order = np.argsort(latency_ms, kind="stable")[: len(latency_ms) if problem.binding else 1]
        fit = (i for i in order if feasible[i] and not explain_excess(problem, placements[i]))
        named += [(label, placements[i]) for i in islice(fit, 1)]
    return collect(twin, named), solved.bound_ms


def list_single_devices(problem: Problem) -> list[tuple[str, IntArray]]:
    """Each device that can run the whole model, alone."""
    return [
        (f"{name} alone", problem.single(device))
        for device, name in enumerate(problem.device_names)
        if problem.runs_all[device]
    ]


def propose_by_search(twin: SimulatedBackend) -> list[tuple[str, IntArray]]:
    """The placement of ``solvers.search``, if memory allows it; a second or two of work."""
    problem = twin.problem
    found = search(problem, twin.costs, twin.semantics, evaluations=SEARCHED)
    excess = twin.infeasibility(found.assignment) or explain_excess(problem, found.assignment)
    return [] if excess else [("search", found.assignment)]


def collect(
    twin: SimulatedBackend,
    named: Sequence[tuple[str, IntArray]],
    known: Sequence[Candidate] = (),
) -> list[Candidate]:
    """Candidates of labels and assignments, each placement once, after those that are known."""
    distinct = {one.assignment.tobytes(): one for one in known}
    for label, assignment in named:
        predicted_ms = twin.evaluate_ignoring_limits(assignment).latency_ms
        found = Candidate(label, assignment, predicted_ms)
        first = distinct.setdefault(assignment.tobytes(), found)
        if label not in first.also and label != first.label:
            distinct[assignment.tobytes()] = replace(first, also=(*first.also, label))
    return list(distinct.values())


def propose_pipelines(twin: SimulatedBackend, time_limit_s: float) -> tuple[list[Candidate], float]:
    """As ``propose_candidates``, for throughput; devices alone are predicted with one stream."""
    problem, costs = twin.problem, twin.costs
    named = [
        *list_single_devices(problem),
        *find_pipelines(problem, costs),
        *propose_by_search(twin),
    ]
    bound_ms = lower_bound(problem, costs, twin.semantics, time_limit_s).bound_ms
    return collect(twin, named), bound_ms


def find_pipelines(problem: Problem, costs: CostTable) -> list[tuple[str, IntArray]]:
    """The best contiguous splits: over all orders, and along one; none where no split fits.

    Returns:
        Labels, ``"dp"`` and ``"dpl"``, and (n_units,) device indices. The first is left out where
        the graph is too wide for it.
    """
    found = []
    for label, solve in (("dp", exact_pipeline), ("dpl", linear_pipeline)):
        try:
            found.append((label, solve(problem, costs)))
        except (TooManyIdealsError, PipelineMemoryError):
            continue
        except UserError:  # no contiguous split fits
            break
    return found
