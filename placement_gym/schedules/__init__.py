"""Compiled kernels: one file per schedule, and what is counted of a placement.

Eleven places put work in time, each for its own reason:

| where | why it exists |
| --- | --- |
| ``sums`` | serial, as HETERO runs, and loads: sums need no clock |
| ``event.event_fifo`` | devices side by side, first come, first served: the usual case, no heap |
| ``event.event_heap`` | links without contention, or devices that choose by rank: needs a heap |
| ``list`` | each device has one fixed order: longest paths instead of events |
| ``call_schedule`` | accelerators are called like functions (Tarnawski et al. 2020) |
| ``solvers.search.list_schedule`` | ``list`` after a move: only what has changed, from both ends |
| ``solvers.search.rebuild`` | places a stretch of units again within it |
| ``solvers.list_scheduling`` | places tasks: HEFT, m-ETF and critical path, as published |
| ``solvers.list_policy`` | places units by weighted scores, in a millisecond, for policies |
| ``agents.doppler.schedule`` | partial schedules, the state that DOPPLER's policies observe |
| ``envs.online.kernel`` | requests wait for stages of plans; no operator appears |
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
