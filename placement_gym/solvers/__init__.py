"""Solvers: pure functions from a problem and its costs to placements and bounds.

Public are the names of ``__all__``, and ``search.search``, which has the name of its room; all else
may change. ``placement_gym.schedules`` lists every scheduler and its purpose.
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
