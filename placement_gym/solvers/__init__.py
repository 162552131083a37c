"""Solvers: pure functions from a problem and its costs to placements and bounds.

What ``__all__`` names is public, and so are ``search.search`` and ``repair.repair``, which have the
names of their modules; all else, kernels above all, may change. Names are imported when they are
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.base.lazy import export_lazily

if TYPE_CHECKING:
    from placement_gym.solvers.bounds import lower_bound as lower_bound
    from placement_gym.solvers.bounds import optimum_or_bound as optimum_or_bound
    from placement_gym.solvers.cuts import minimum_cut as minimum_cut
    from placement_gym.solvers.fill import fill_in_order as fill_in_order
    from placement_gym.solvers.fill import greedy_fill as greedy_fill
    from placement_gym.solvers.heuristics import propose_prefixes as propose_prefixes
    from placement_gym.solvers.heuristics import propose_simple as propose_simple
    from placement_gym.solvers.heuristics import propose_single_devices as propose_single_devices
    from placement_gym.solvers.heuristics import propose_windows as propose_windows
    from placement_gym.solvers.list_policy.floors import earliest_finish as earliest_finish
    from placement_gym.solvers.list_policy.floors import lookahead as lookahead
    from placement_gym.solvers.list_scheduling import critical_path as critical_path
    from placement_gym.solvers.list_scheduling import heft as heft
    from placement_gym.solvers.list_scheduling import m_etf as m_etf
    from placement_gym.solvers.milp import serial_program as serial_program
    from placement_gym.solvers.partition import metis_partition as metis_partition
    from placement_gym.solvers.pipelines.pipeline import exact_pipeline as exact_pipeline
    from placement_gym.solvers.pipelines.pipeline import linear_pipeline as linear_pipeline
    from placement_gym.solvers.programs.max_load import max_load as max_load
    from placement_gym.solvers.repair import RepairPrices as RepairPrices
    from placement_gym.solvers.search.anytime import AnytimeSearch as AnytimeSearch
    from placement_gym.solvers.search.anytime import SearchResult as SearchResult
    from placement_gym.solvers.solution import Solution as Solution

SOURCES = {
    "AnytimeSearch": "search.anytime",
    "RepairPrices": "repair",
    "SearchResult": "search.anytime",
    "Solution": "solution",
    "critical_path": "list_scheduling",
    "earliest_finish": "list_policy.floors",
    "exact_pipeline": "pipelines.pipeline",
    "fill_in_order": "fill",
    "greedy_fill": "fill",
    "heft": "list_scheduling",
    "linear_pipeline": "pipelines.pipeline",
    "lookahead": "list_policy.floors",
    "lower_bound": "bounds",
    "m_etf": "list_scheduling",
    "max_load": "programs.max_load",
    "metis_partition": "partition",
    "minimum_cut": "cuts",
    "optimum_or_bound": "bounds",
    "propose_prefixes": "heuristics",
    "propose_simple": "heuristics",
    "propose_single_devices": "heuristics",
    "propose_windows": "heuristics",
    "serial_program": "milp",
}
__all__, __getattr__, __dir__ = export_lazily(__name__, SOURCES)
