"""Splits for throughput: the best pipelines by a profile."""

from __future__ import annotations

from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.pipelines.ideals import TooManyIdealsError
from placement_gym.solvers.pipelines.pipeline import exact_pipeline, linear_pipeline
from placement_gym.solvers.pipelines.stages import PipelineMemoryError


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
