"""Kernels that compute latencies, one file per schedule, and what a placement holds and moves.

Work is scheduled in twelve places:

| where | purpose |
| --- | --- |
| ``sums`` | serial, as HETERO runs, and loads: sums need no clock |
| ``event.event_fifo`` | devices in parallel, first come, first served: the usual case, no heap |
| ``event.event_heap`` | links without contention, or devices that choose by rank: needs a heap |
| ``list`` | each device has one fixed order: longest paths instead of events |
| ``call_schedule`` | accelerators are called like functions (Tarnawski et al. 2020) |
| ``solvers.search.list_schedule`` | a ``list`` schedule that is updated while units move |
| ``solvers.search.rebuild`` | a stretch of units is placed again in such a schedule |
| ``solvers.list_scheduling`` | HEFT, m-ETF and critical path, as published |
| ``solvers.list_policy`` | units placed by weighted scores, in a millisecond, for policies |
| ``solvers.beams.expansion`` | many partial schedules in parallel, with bounds |
| ``agents.doppler.schedule`` | partial schedules, the state that DOPPLER's policies observe |
| ``envs.online.kernel`` | requests wait for stages of plans; no operator appears |
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
