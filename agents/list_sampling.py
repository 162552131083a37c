"""List sampling: the best of many list schedules with noise, and of changes to the best of them."""

from __future__ import annotations

from agents.search.list_search import ListSearch


class ListSampling(ListSearch):
    """The search over the noise of a list schedule, with nothing learned; see ``ListSearch``."""
