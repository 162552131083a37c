"""A policy that chooses the weights of a list scheduler by the statistics of a problem."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from placement_gym.base.arrays import FloatArray
from placement_gym.base.errors import unknown_name
from placement_gym.base.files import write_text
from placement_gym.solvers.list_policy.scheduler import N_WEIGHTS

ONE, MANY = "one", "many"
SHIPPED = (ONE, MANY)
"""Policies for one answer, and for the best of many."""
Matrix = list[list[float]]
MOST_SPREAD = 4.0
"""Absolute value that no logarithm of a spread exceeds."""


@dataclass(frozen=True)
class ListPolicy:
    """A network with one hidden layer of hyperbolic tangents: means and spreads of a Gaussian.

    Attributes:
        shift: (n_statistics,) means of the statistics over the training problems.
        scale: (n_statistics,) their standard deviations.
        hidden: (n_statistics + 1, n_hidden) weights, the bias last.
        output: (n_hidden + 1, 2 ``N_WEIGHTS``) weights of means, then of logarithms of spreads.
        about: How it was trained.
    """

    shift: list[float]
    scale: list[float]
    hidden: Matrix
    output: Matrix
    about: str = ""

    @classmethod
    def load(cls, name: str | Path) -> ListPolicy:
        """Load a policy that comes with the package, or a file of ``save``.

        Raises:
            UserError: There is no such policy and no such file.
        """
        if name in SHIPPED:
            return load_shipped(str(name))
        if not Path(name).is_file():
            raise unknown_name("policy (or the file of one)", str(name), SHIPPED)
        return cls(**json.loads(Path(name).read_text()))

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        write_text(path, json.dumps(asdict(self)) + "\n")

    def compute(self, statistics: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(``N_WEIGHTS``,) means and spreads of actions, from (n_statistics,) statistics."""
        seen = (statistics - np.array(self.shift)) / np.array(self.scale)
        between = np.tanh(np.append(seen, 1.0) @ np.array(self.hidden))
        out = np.append(between, 1.0) @ np.array(self.output)
        return out[:N_WEIGHTS], np.exp(np.clip(out[N_WEIGHTS:], -MOST_SPREAD, MOST_SPREAD))

    def draw(self, statistics: FloatArray, number: int, rng: np.random.Generator) -> FloatArray:
        """(number, ``N_WEIGHTS``) actions, the most likely one first."""
        means, spreads = self.compute(statistics)
        actions = means + spreads * rng.standard_normal((number, N_WEIGHTS))
        actions[0] = means
        return actions


@cache
def load_shipped(name: str) -> ListPolicy:
    """The policy that comes with the package under a name of ``SHIPPED``."""
    return ListPolicy(**json.loads((Path(__file__).parent / f"{name}.json").read_text()))
