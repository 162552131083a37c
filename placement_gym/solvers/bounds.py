"""Lower bounds on the latency of every placement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from placement_gym.base import IntArray, now_s
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable, Semantics
from placement_gym.solvers.beams import MERGE_TOLERANCE, WIDTHS, Beam, widen
from placement_gym.solvers.cuts import minimum_cut
from placement_gym.solvers.linear import GAP, Linear, minimize
from placement_gym.solvers.milp import limit_memory, serial_program
from placement_gym.solvers.programs import max_load, solve_path_load
from placement_gym.solvers.solution import Solution, reaches
from placement_gym.solvers.tasks import Tasks, earliest_on_devices_ms, mean_load_ms

MAX_READINGS = 20_000
"""Graphs of more readings are bounded by loads and paths alone. Hand-tuned: programs with order
grow too large."""
BEAM_SHARE = 0.4
"""Share of the time limit for narrow beams. Hand-tuned."""


def lower_bound(
    problem: Problem,
    costs: CostTable,
    semantics: Semantics,
    time_limit_s: float = 10.0,
    upper_ms: float = np.inf,
) -> Solution:
    """Compute the best available bound for a schedule, and a placement if the solver finds one.

    Serial: a minimum cut, or a mixed-integer program. List and event: the longest path with
    transfers and the balanced load, then beams and the path-load program; the latency of the
    placement may exceed the bound. Calls: the longest path with transfers. Loads: the linear
    program in which units can be divided, then ``max_load``. Large graphs get the simple bounds
    alone.

    ``time_limit_s`` excludes the compilation of kernels. Ten units take a fraction of a second;
    where the limit ends a solver, the bound depends on the machine. Some placement reaches
    ``upper_ms``, which the bound does not exceed.
    """
    # Limits that a schedule ignores or only charges for must not enter a bound.
    if not semantics.limits_weights:
        free = (replace(device, memory_bytes=None, weight_share=None) for device in problem.devices)
        problem = replace(problem, devices=tuple(free))
    if not problem.possible.any(axis=1).all():  # programs would contain infinite times
        return Solution(None, np.inf, proven=False)
    if semantics.schedule == "serial":
        two = len(problem.devices) == 2 and problem.supports_all and not problem.binding
        if two and not costs.submodel_ms.any():
            return minimum_cut(problem.units, costs)
        return serial_program(problem, costs, time_limit_s)
    if semantics.schedule == "calls":
        return Solution(None, path_ms(problem, call_tasks(problem, costs)), proven=False)
    # Simple bounds take milliseconds and remain if the time limit ends the rest.
    started = now_s()
    simple_ms = load_ms(problem, costs, time_limit_s)
    overlaps = semantics.schedule in ("event", "list")
    if overlaps:
        tasks = Tasks.from_operators(problem.units, costs)
        simple_ms = max(simple_ms, path_ms(problem, tasks))
    bound_ms = min(simple_ms, upper_ms)
    left_s = time_limit_s - (now_s() - started)
    # A program of so many readings could not be built within the limit.
    many = len(problem.units.graph.movable_tensors.readers) > MAX_READINGS
    if left_s < 0.0 or many or (not overlaps and reaches(upper_ms, bound_ms)):
        return Solution(None, bound_ms, proven=False)
    if overlaps:
        solution = bound_overlapping(problem, costs, semantics, left_s, upper_ms)
    else:
        # Without the known load: refuting all smaller ones took longer than finding it.
        solution = max_load(problem, costs, None, bound_ms, left_s)
    bound_ms = min(max(bound_ms, solution.bound_ms), upper_ms)
    return replace(solution, bound_ms=bound_ms, proven=False)


def optimum_or_bound(
    problem: Problem,
    costs: CostTable,
    semantics: Semantics,
    known_ms: Sequence[float],
    evaluate: Callable[[IntArray], float],
) -> tuple[float | None, float]:
    """Compute a lower bound, and the optimum if some placement is proven to reach it.

    The optimum is the least of the latencies ``known_ms`` of feasible placements and the solver's
    own, if only rounding separates it from the bound. ``evaluate`` returns the latency in ms of an
    (n_units,) assignment, infinite if it is infeasible. Returns the optimum in ms, None if it is
    not proven; and the bound in ms.
    """
    best_ms = min(known_ms, default=np.inf)
    solved = lower_bound(problem, costs, semantics, upper_ms=best_ms)
    if solved.assignment is not None:
        best_ms = min(best_ms, evaluate(solved.assignment))
    bound_ms = min(solved.bound_ms, best_ms)
    return best_ms if reaches(best_ms, bound_ms) else None, bound_ms


def bound_overlapping(
    problem: Problem, costs: CostTable, semantics: Semantics, time_limit_s: float, upper_ms: float
) -> Solution:
    """Bound an event or list schedule by narrow beams, the path-load program and wide beams."""
    started = now_s()
    end = started + time_limit_s
    beam = Beam(problem, costs, semantics, end, MERGE_TOLERANCE)
    best = widen(beam, WIDTHS[:2], upper_ms, started + BEAM_SHARE * time_limit_s)
    # The program has the highest bounds for BERT, beams for most other models.
    for attempt in ("program", "wide"):
        left_s = end - now_s()
        if best.bound_ms >= upper_ms * (1.0 - GAP) or left_s <= 0.0:
            break
        if attempt == "program":
            solution = solve_path_load(problem, costs, left_s / 2, upper_ms=upper_ms)
        else:
            solution = widen(beam, WIDTHS[2:], upper_ms, end)
        assignment = solution.assignment if best.assignment is None else best.assignment
        best = Solution(assignment, max(best.bound_ms, solution.bound_ms), proven=False)
    return best


def path_ms(problem: Problem, tasks: Tasks) -> float:
    """The longest path, transfers included, if each task could choose its device."""
    return float(earliest_on_devices_ms(problem, tasks).min(axis=1).max())


def call_tasks(problem: Problem, costs: CostTable) -> Tasks:
    """Operators, and transfers as calls pay for them: out of one device and into the other."""
    tasks = Tasks.from_operators(problem.units, costs)
    border_ms = costs.boundary_ms[tasks.tensor]
    apart = ~np.eye(len(problem.devices), dtype=bool)
    return replace(tasks, transfer_ms=(border_ms[:, :, None] + border_ms[:, None, :]) * apart)


def load_ms(problem: Problem, costs: CostTable, time_limit_s: float = 60.0) -> float:
    """The least maximum load if units could be divided, within memory limits."""
    tasks = Tasks.from_units(problem.units, costs)
    # Units of equal times, support and bytes are divided together.
    traits = np.column_stack([tasks.ms, problem.possible, problem.unit_bytes])
    _, first, count = np.unique(traits, axis=0, return_index=True, return_counts=True)
    ms, possible = tasks.ms[first], problem.possible[first]
    d = len(problem.devices)
    program = Linear(about_ms=mean_load_ms(problem, tasks))
    x = program.variables(*ms.shape, upper=count[:, None] * possible)
    largest = program.variables(1, cost=1.0, in_ms=True)
    program.require((x, 1.0), rows=len(first), low=count, high=count)
    limit_memory(program, x, problem.unit_bytes[first], problem.memory)
    program.require((x.T, ms.T), (np.repeat(largest, d), -1.0), rows=d)
    return minimize(program, time_limit_s).bound
