"""A policy that chooses the weights of a list scheduler from the statistics of a problem."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import FloatArray, IntArray, UserError, is_path, unknown_name, write_text
from placement_gym.solvers.list_policy.list_problem import N_STATISTICS, compute_statistics
from placement_gym.solvers.list_policy.scheduler import N_WEIGHTS, ListScheduler, draw_actions

ONE, MANY = "one", "many"
SHIPPED = (ONE, MANY)
"""Policies for one answer, and for the best of many."""
Matrix = list[list[float]]
BATCHES = (8, 0, 1), (40, 16, 2)
"""Learned and random schedules of two batches, and how many of the best are proposed. The first
batch is small, so the first proposals come soon."""
FEWEST, WORK = 2, 2_000_000
"""Minimum number of learned schedules per batch; maximum operators times devices of all batches."""
MEGABYTES = 1
"""Maximum size of a file."""
MOST_SPREAD = 4.0
"""Maximum absolute value of the logarithm of a spread."""


@dataclass(frozen=True)
class ListPolicy:
    """A network with one hidden layer (tanh) that outputs means and spreads of a Gaussian."""

    shift: list[float]  # (n_statistics,) means of the statistics over the training problems
    scale: list[float]  # (n_statistics,) their standard deviations
    hidden: Matrix  # (n_statistics + 1, n_hidden) weights, the bias last
    # (n_hidden + 1, 2 ``N_WEIGHTS``) weights of means, then of logarithms of spreads
    output: Matrix
    about: str = ""  # how it was trained

    @classmethod
    def load(cls, name: str | Path) -> ListPolicy:
        """Load a shipped policy, or a file written by ``save``.

        Raises:
            FileError: The file cannot be read.
            UserError: There is no such policy, or the file holds none; the message says why.
        """
        from placement_gym.base.schemas import load_valid

        if name in SHIPPED:
            return load_shipped(str(name))
        if not is_path(name):
            raise unknown_name("policy (or the file of one)", str(name), SHIPPED)
        return load_valid(name, cls.from_dict, "a list policy", MEGABYTES)

    @classmethod
    def from_dict(cls, values: Any) -> ListPolicy:
        """The inverse of ``dataclasses.asdict``; a ``UserError`` names a wrong field."""
        from placement_gym.base.schemas import ListPolicyFields, check

        policy = cls(**check(ListPolicyFields, values).model_dump())
        n_hidden = len(policy.output) - 1
        for name, rows, columns in (
            ("hidden", N_STATISTICS + 1, n_hidden),
            ("output", n_hidden + 1, 2 * N_WEIGHTS),
        ):
            matrix: Matrix = getattr(policy, name)
            if len(matrix) != rows or {len(row) for row in matrix} != {columns}:
                raise UserError(f"{name} must have {rows} rows of {columns} numbers")
        if not len(policy.shift) == len(policy.scale) == N_STATISTICS:
            raise UserError(f"shift and scale must have {N_STATISTICS} numbers each")
        return policy

    def save(self, path: str | Path) -> None:
        """Write the policy as JSON."""
        write_text(path, json.dumps(asdict(self)) + "\n")

    def compute(self, statistics: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """(``N_WEIGHTS``,) means and spreads of actions, from (n_statistics,) statistics."""
        shift, scale, hidden, output = self.arrays
        between = np.tanh(np.append((statistics - shift) / scale, 1.0) @ hidden)
        out = np.append(between, 1.0) @ output
        return out[:N_WEIGHTS], np.exp(np.clip(out[N_WEIGHTS:], -MOST_SPREAD, MOST_SPREAD))

    def draw(self, statistics: NDArray[Any], number: int, rng: np.random.Generator) -> FloatArray:
        """(number, ``N_WEIGHTS``) actions, the most likely one first."""
        means, spreads = self.compute(statistics)
        actions = means + spreads * rng.standard_normal((number, N_WEIGHTS))
        actions[0] = means
        return actions

    @cached_property
    def arrays(self) -> tuple[FloatArray, ...]:
        """``shift``, ``scale``, ``hidden`` and ``output``."""
        return tuple(map(np.array, (self.shift, self.scale, self.hidden, self.output)))


@cache
def load_shipped(name: str) -> ListPolicy:
    """A policy of ``SHIPPED``."""
    return ListPolicy(**json.loads((Path(__file__).parent / f"{name}.json").read_text()))


def propose_lists(scheduler: ListScheduler, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield (n_units,) devices of the best of learned and random list schedules, batch by batch."""
    policy, seen = load_shipped(MANY), compute_statistics(scheduler.view)
    total = sum(learned + random for learned, random, _ in BATCHES)
    share = min(WORK / (scheduler.view.ms.size * total), 1.0)
    for learned, random, number in BATCHES:
        drawn = policy.draw(seen, max(int(share * learned), FEWEST), rng)
        actions = np.concatenate([drawn, draw_actions(rng, int(share * random))])
        yield from scheduler.find_best(actions, rng, number)[0].astype(np.int64)
