"""A best known latency with the placement that reaches it, and the files that hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError
from placement_gym.base.json_file import write_json
from placement_gym.bench.known.identity import ProblemIdentity
from placement_gym.bench.study.task import describe_devices
from placement_gym.solvers.solution import TOLERANCE, reaches

VALUES = Path(__file__).parent / "values"
"""The folder of the package's best known values, one file for each problem."""
FORMAT = 1
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


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
        """Who found it, from which commit and when."""
        return ", ".join(filter(None, [self.agent, self.commit, self.date]))

    @property
    def assignment(self) -> IntArray:
        """(n_units,) device indices."""
        return np.array([DIGITS.index(digit) for digit in self.placement], dtype=np.int64)

    @property
    def file_name(self) -> str:
        model = re.sub(r"[^\w-]+", "-", Path(self.problem[2]).stem)
        return f"{model}-{self.identity.key}.json"

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def load(cls, path: Path) -> BestKnown:
        """Read a file that ``save`` wrote.

        Raises:
            UserError: It is not such a file, or of another format.
        """
        try:
            values = json.loads(path.read_text())
            if values.pop("format") != FORMAT:
                raise ValueError(f"this version reads format {FORMAT}")
            identity = values.pop("identity")
            identity["devices"] = tuple(identity["devices"])
            return cls(ProblemIdentity(**identity), **values)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} is not a file of a best known value: {error!r}") from error

    def save(self, folder: Path) -> Path:
        """Write the value as JSON; the problem's earlier file is replaced as a whole.

        Raises:
            FileError: It cannot be written; the earlier file is unchanged.
        """
        path = folder / self.file_name
        write_json(path, self.to_json())
        return path


def encode_assignment(assignment: IntArray) -> str:
    """The digits of (n_units,) device indices."""
    return "".join(DIGITS[device] for device in assignment)


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


def load_values(folder: Path) -> list[BestKnown]:
    """The best known values of a folder, by name.

    Raises:
        UserError: A file is damaged.
    """
    values = [BestKnown.load(path) for path in folder.glob("[!.]*.json")]
    return sorted(values, key=lambda value: value.name)


def find_best_known(identity: ProblemIdentity | None) -> BestKnown | None:
    """The package's best known value of a problem, if there is one; None has none."""
    if identity is None:
        return None
    files = VALUES.glob(f"*-{identity.key}.json")
    return next(map(BestKnown.load, files), None)
