"""A best known latency with the placement that reaches it, and the file that holds them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.base import IntArray, UserError, write_text
from placement_gym.bench.known.identity import ProblemIdentity
from placement_gym.bench.run import describe_devices
from placement_gym.solvers import TOLERANCE, reaches

VALUES = Path(__file__).parent / "values.json"
"""The package's best known values, which ``benchmarks/known.py`` writes: a line for each problem,
sorted."""


@dataclass(frozen=True)
class BestKnown:
    """The lowest latency that any placement of a problem is known to have.

    Attributes:
        identity: Which problem.
        problem: Environment id, its arguments, model and devices, which make the problem; in paths
            environment variables, as in a study.
        latency_ms: The latency, as the simulator computes it.
        placement: Device of each unit in the order of the units, a base-36 digit each.
        best_single_ms: The fastest device that holds the whole model; None if none does.
        bound_ms: A lower bound of all placements.
        agent: Label of the agent that found the placement.
        commit: Commit of the source tree that it ran from; None if that is not known.
        date: When it was found, as ``YYYY-MM-DD``.
    """

    identity: ProblemIdentity
    problem: Sequence[Any]
    latency_ms: float
    placement: str
    best_single_ms: float | None
    bound_ms: float
    agent: str
    commit: str | None
    date: str

    @property
    def proven(self) -> bool:
        """True if the latency exceeds the bound by no more than rounding."""
        return reaches(self.latency_ms, self.bound_ms)

    @property
    def trivial(self) -> bool:
        """True if one device alone is as fast, so that there is nothing to place."""
        return is_trivial(self.latency_ms, self.best_single_ms)

    @property
    def name(self) -> str:
        """Model, devices and settings in a few words."""
        return name_problem(self.problem)

    @property
    def origin(self) -> str:
        """The agent that found it, with commit and date."""
        return ", ".join(filter(None, [self.agent, self.commit, self.date]))

    @property
    def assignment(self) -> IntArray:
        """(n_units,) device indices."""
        return np.array([int(digit, 36) for digit in self.placement], dtype=np.int64)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> BestKnown:
        """The value of a line of the file."""
        identity = dict(values["identity"])
        identity["devices"] = tuple(identity["devices"])
        return cls(**{**values, "identity": ProblemIdentity(**identity)})


def is_trivial(latency_ms: float, best_single_ms: float | None) -> bool:
    """Return whether one device alone is as fast as a latency, but for rounding."""
    return best_single_ms is not None and best_single_ms <= latency_ms * (1 + TOLERANCE)


def name_problem(problem: Sequence[Any]) -> str:
    """Model, devices and settings of a problem in a few words."""
    _, env_kwargs, model, devices = problem
    path = Path(model)
    stem = f"{path.parent.name}/{path.stem}" if path.suffix else model
    return ", ".join([f"{stem} on {describe_devices(devices)}", *map(str, _leaves(env_kwargs))])


def _leaves(values: Mapping[str, Any]) -> Iterator[Any]:
    for _, value in sorted(values.items()):
        if isinstance(value, Mapping):
            yield from _leaves(value)
        elif value is not None:
            yield value


def load_values(path: Path) -> list[BestKnown]:
    """The best known values of a file.

    Raises:
        UserError: The file is damaged.
    """
    try:
        return [BestKnown.from_json(values) for values in json.loads(path.read_text())]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a file of best known values: {error!r}") from error


def save_values(values: Sequence[BestKnown], path: Path) -> None:
    """Write a JSON array with a line for each value, by name.

    Raises:
        FileError: It cannot be written; the earlier file is unchanged.
    """
    ordered = sorted(values, key=lambda value: (value.name, value.identity.key))
    lines = [json.dumps(asdict(value)) for value in ordered]
    write_text(path, "[\n" + ",\n".join(lines) + "\n]\n")


def find_best_known(identity: ProblemIdentity | None) -> BestKnown | None:
    """The package's best known value of a problem, if there is one; None has none."""
    if identity is None:
        return None
    return next((value for value in load_values(VALUES) if value.identity == identity), None)
