"""Pipelines over clusters of devices whose links are fast within a cluster and slow between two.

Stages are laid along devices cluster by cluster, so that each cluster runs the units between two
nested ideals, its region (an extension in the appendix of Tarnawski et al. 2020). Regions say which
link every transfer takes, which leaves a split of the ordinary kind: units run in the cluster of
their region alone, tensors from other clusters cost more, and so do the operators that send some to
these. The best split is the best one of all regions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import combinations_with_replacement, pairwise, permutations

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.errors import UserError
from placement_gym.graph.operators import BACKWARD
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.pipelines.contiguous import NO_SPLIT, ROUNDING, Split, SplitSearch
from placement_gym.solvers.pipelines.forward import Forward, merge_leaves
from placement_gym.solvers.pipelines.ideal_stages import sum_units
from placement_gym.solvers.pipelines.ideals import Ideals, enumerate_ideals, enumerate_prefixes


@dataclass(frozen=True, eq=False, kw_only=True)
class RegionCosts(CostTable):
    """Costs where it is known in which cluster every unit runs.

    Attributes:
        region_ms: (n_tensors, n_devices) what takes the place of ``boundary_ms``.
    """

    region_ms: FloatArray

    @cached_property
    def boundary_ms(self) -> FloatArray:
        return self.region_ms


def clustered_pipeline(
    problem: Problem, costs: CostTable, cluster: IntArray, linear: bool = False
) -> Split:
    """The best contiguous split that takes the devices cluster by cluster.

    A device pays for a tensor that it reads by the link to the cluster that makes it, and once for
    one that it makes, by the slowest link that this takes. Every cut between clusters that a bound
    does not rule out is one more run of the dynamic programme; cuts are as many as ideals, to the
    power of the number of clusters less one.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators; links within a cluster, and those between two, are as
            fast as ``CostTable.end_ms`` says.
        cluster: (n_devices,) cluster of each device, from 0.
        linear: Whether to split along one order, as ``linear_pipeline``.

    Returns:
        The split.

    Raises:
        UserError: As for ``exact_pipeline``.
    """
    forward = Forward.of(problem.units)
    if not linear and not problem.binding and BACKWARD not in problem.units.graph.types:
        # What a leaf makes is read by its neighbour alone, also across clusters, unless a backward
        # operator reads it, too.
        forward, _ = merge_leaves(forward, problem, costs)
    best = improve(problem, costs, cluster, forward, enumerate_prefixes(forward.depth_first()))
    if not linear:
        best = improve(problem, costs, cluster, forward, enumerate_ideals(forward), best)
    if not np.isfinite(best.load_ms):
        raise UserError("no contiguous split fits the clusters' memory and support")
    return best


def improve(
    problem: Problem,
    costs: CostTable,
    cluster: IntArray,
    forward: Forward,
    ideals: Ideals,
    best: Split = NO_SPLIT,
) -> Split:
    """The best split between ideals if it is better than one that is known, or that."""
    for bound_ms, home in sorted_regions(problem, costs, cluster, forward, ideals):
        if bound_ms >= best.load_ms:
            break
        regional = region_costs(problem, costs, cluster, home)
        fast = regional.unit_ms(problem.units) <= best.load_ms
        supported = problem.supported & fast & (home[:, None] == cluster)
        if supported.any(axis=1).all():
            part = replace(problem, supported=supported, capable=problem.runs)
            search = SplitSearch(part, regional, most_ms=best.load_ms * (1.0 + ROUNDING))
            found = search.best(forward, ideals, problem.unit_bytes, best.load_ms)
            best = min(best, found, key=lambda split: split.load_ms)
    return best


def sorted_regions(
    problem: Problem, costs: CostTable, cluster: IntArray, forward: Forward, ideals: Ideals
) -> Iterator[tuple[float, IntArray]]:
    """Yield a bound of the load, and the (n_units,) cluster of each unit, ascending by the bound.

    That is the load of a cluster whose units could be divided and each ran on its fastest device.
    """
    ms = np.where(problem.supported, costs.unit_ms(problem.units), np.inf)
    n_clusters = int(cluster.max()) + 1
    fastest = np.stack([ms[:, cluster == c].min(axis=1) for c in range(n_clusters)], axis=1)
    work = sum_units(np.where(np.isfinite(fastest), fastest, 0.0), forward, ideals)
    work /= np.bincount(cluster)
    last = len(ideals) - 1
    found = []
    for inner in combinations_with_replacement(range(len(ideals)), n_clusters - 1):
        cuts = (0, *inner, last)
        if any((ideals.words[a] & ~ideals.words[b]).any() for a, b in pairwise(inner)):
            continue
        for order in permutations(range(n_clusters)):
            spans = zip(pairwise(cuts), order, strict=True)
            found.append((max(work[b, c] - work[a, c] for (a, b), c in spans), inner, order))
    for bound_ms, inner, order in sorted(found):
        region = np.zeros(len(forward), dtype=np.int64)
        for cut in inner:
            region += ~ideals.nodes(cut)
        yield float(bound_ms), np.array(order)[region[forward.node]]


def region_costs(
    problem: Problem, costs: CostTable, cluster: IntArray, home: IntArray
) -> RegionCosts:
    """Costs if units run in (n_units,) known clusters, each transfer at the speed of its link."""
    graph = problem.units.graph
    same = cluster[:, None] == cluster
    near_ms = costs.end_ms(same & ~np.eye(len(cluster), dtype=bool))
    far_ms = costs.end_ms(~same)
    of_operator = home[problem.units.of_operator]
    maker = graph.tensors.source
    arrives_ms = np.where(of_operator[maker][:, None] == cluster, near_ms, far_ms)
    # Whoever makes a tensor sends it once: the time of a slow link over that of a fast one, which
    # its border has already, is that of the operator.
    tensor, reader = graph.moved.readings()
    leaving = of_operator[graph.moved.source[tensor]] != of_operator[reader]
    leaves = np.unique(graph.moving[tensor[leaving]])
    operator_ms = costs.operator_ms.copy()
    np.add.at(operator_ms, maker[leaves], np.maximum(far_ms - near_ms, 0.0)[leaves])
    given = {field.name: getattr(costs, field.name) for field in fields(CostTable)}
    return RegionCosts(**{**given, "operator_ms": operator_ms}, region_ms=arrives_ms)
