"""The pass over all ideals, size by size: progress, threads, and what chains have reached."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from placement_gym.base.arrays import FloatArray, Int32, IntArray
from placement_gym.solvers.pipelines.chains import Chains, Plan, extend_chains
from placement_gym.solvers.pipelines.stages import Stages

Report = Callable[[int, int], None]
FEW = 16
"""So many ideals of one size are not worth threads."""


def find_chains(
    stages: Stages, plan: Plan, offsets: IntArray, threads: int = 1, report: Report | None = None
) -> Chains:
    """Fill the table of chains.

    An interrupt takes effect between two sizes.

    Args:
        stages: See ``Stages``.
        plan: See ``Plan``.
        offsets: (n + 2,) first ideal of each size.
        threads: How many ideals of one size are extended at a time.
        report: Called with the number of ideals done and that of all.
    """
    n_ideals, n_kinds = stages.work_ms.shape
    chains = Chains.start(n_ideals, len(plan.room))
    reached = Reached(np.zeros(n_ideals, dtype=np.int32), np.zeros((n_ideals, n_kinds)))
    with ThreadPoolExecutor(threads) as pool:
        for first, stop in zip(offsets[1:-1].tolist(), offsets[2:].tolist(), strict=True):
            steps = min(threads, 1 + (stop - first) // FEW)
            known = reached.smaller_ones
            parts = [(stages, plan, chains, *known, first + s, stop, steps) for s in range(steps)]
            if steps == 1:
                extend_chains(*parts[0])
            else:
                list(pool.map(lambda part: extend_chains(*part), parts))
            reached.add(first, chains.lowest[first:stop], stages.work_ms[first:stop])
            if report is not None:
                report(stop, n_ideals)
    return chains


@dataclass
class Reached:
    """Ideals that chains reach.

    Attributes:
        ideal: (n_ideals,) int32, of which the first ``count`` are set.
        heaviest_ms: (n_ideals, n_kinds) largest work so far.
        count: Their number; the empty ideal is the first.
    """

    ideal: Int32
    heaviest_ms: FloatArray
    count: int = 1

    @property
    def smaller_ones(self) -> tuple[Int32, FloatArray]:
        """The ideals so far, and the largest work of any up to each."""
        return self.ideal[: self.count], self.heaviest_ms[: self.count]

    def add(self, first: int, lowest: FloatArray, work_ms: FloatArray) -> None:
        """Add those of the ideals from ``first`` on that have a finite lowest value."""
        new = np.flatnonzero(np.isfinite(lowest))
        stop = self.count + len(new)
        self.ideal[self.count : stop] = first + new
        self.heaviest_ms[self.count : stop] = work_ms[new]
        behind = self.heaviest_ms[self.count - 1 : stop]
        np.maximum.accumulate(behind, axis=0, out=behind)
        self.count = stop
