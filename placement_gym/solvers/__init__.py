"""Solvers: pure functions from a problem and its costs to placements and bounds.

What ``__all__`` names is public, and so is ``search.search``, which has the name of its room; all
else, kernels above all, may change. Names are imported when they are first used.

Operators are scheduled in six places, each for what the others cannot do:

- ``placement_gym.schedules``: what a given placement takes, by which all others are checked.
- ``list_scheduling``: HEFT, critical path and m-ETF as published, gaps between tasks included.
- ``list_policy``: thousands of list schedules from nothing, with weights, and with channels.
- ``search.rebuild``: a stretch of a placement again, from the middle of its schedule on.
- ``search.list_schedule``: a schedule that is kept up to date while units move.
- ``beams.expansion``: many partial schedules side by side, with bounds.
"""

import lazy_loader

from placement_gym.base import explain_on_import

find_lazily, _, _ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = explain_on_import(__name__, find_lazily)
__all__ = [
    "AnytimeSearch",
    "RepairPrices",
    "SearchResult",
    "Solution",
    "critical_path",
    "earliest_finish",
    "exact_pipeline",
    "fill_in_order",
    "greedy_fill",
    "heft",
    "linear_pipeline",
    "lookahead",
    "lower_bound",
    "m_etf",
    "max_load",
    "metis_partition",
    "minimum_cut",
    "optimum_or_bound",
    "propose_prefixes",
    "propose_simple",
    "propose_single_devices",
    "propose_windows",
    "repair",
    "serial_program",
]


def __dir__() -> list[str]:
    return __all__
