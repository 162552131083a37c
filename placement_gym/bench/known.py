"""Best known latencies of simulated problems, kept with the package; scores are relative to them.

A problem is known by its operators, costs, units, limits and schedule, not by the names of files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.backends import Backend
from placement_gym.backends.simulated import SimulatedBackend, default_schedule
from placement_gym.base import IntArray, UserError, write_text
from placement_gym.bench.run import Json, describe_devices
from placement_gym.bench.study import STUDIES
from placement_gym.problem.costs import Semantics, parse_schedule
from placement_gym.solvers import TOLERANCE, reaches

VALUES = STUDIES / "best_known.json"
"""The package's best known values, which ``benchmarks/known.py`` writes."""
LIMITS = ("memory_bytes", "weight_share")
SCHEDULE_KWARGS = {"schedule", "objective"}
"""Arguments of ``gym.make`` that change what a latency means, and no cost."""


@dataclass(frozen=True)
class ProblemIdentity:
    """A simulated problem without names of files: two of one name differ by their fingerprints.

    Attributes:
        model_fingerprint: ``OpGraph.fingerprint()`` of its operators.
        costs_fingerprint: ``CostTable.fingerprint``.
        units: Sixteen hex digits of the units' names in their order, so of the granularity.
        devices: Name and memory limit of each device, and its pool where that has a limit.
        schedule: Axes of the semantics that differ from the defaults.
    """

    model_fingerprint: str
    costs_fingerprint: str
    units: str
    devices: tuple[Mapping[str, Any], ...]
    schedule: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Sixteen hex digits of all fields."""
        return digest(json.dumps(asdict(self), sort_keys=True))


def identify(backend: Backend) -> ProblemIdentity | None:
    """The identity of a backend's problem; None where latencies are measured."""
    if not isinstance(backend, SimulatedBackend):
        return None
    problem = backend.problem
    return ProblemIdentity(
        problem.units.graph.fingerprint(),
        backend.costs.fingerprint,
        digest("\n".join(problem.units.names)),
        describe_limits([device.to_json() for device in problem.devices]),
        list_changed_axes(backend.semantics),
    )


def identify_row(row: Json, score_on: Mapping[str, Any] | None = None) -> ProblemIdentity | None:
    """The identity of a row's problem, or with ``score_on`` of the one where it was scored again.

    None where latencies are measured, the run has no placement, or ``score_on`` (other arguments
    of ``gym.make``) changes more than the schedule.
    """
    changes = dict(score_on or {})
    if changes.pop("env", row["env"]) != row["env"] or not set(changes) <= SCHEDULE_KWARGS:
        return None
    if row["costs_fingerprint"] is None or not row["placement"]:
        return None
    kwargs = {**row["env_kwargs"], **changes}
    schedule = kwargs.get("schedule") or default_schedule(kwargs.get("model"))
    return ProblemIdentity(
        row["model_fingerprint"],
        row["costs_fingerprint"],
        digest("\n".join(row["placement"])),
        describe_limits(row["devices"]),
        list_changed_axes(parse_schedule(schedule, kwargs.get("objective", "latency"))),
    )


def describe_limits(devices: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    limited = [device for device in devices if any(key in device for key in LIMITS)]
    pools = {device.get("memory_pool") for device in limited} - {None, ""}
    return tuple(
        {
            key: device[key]
            for key in ("name", *LIMITS, "memory_pool")
            if key in device and (key != "memory_pool" or device[key] in pools)
        }
        for device in devices
    )


def list_changed_axes(semantics: Semantics) -> dict[str, Any]:
    defaults = asdict(Semantics())
    return {axis: value for axis, value in asdict(semantics).items() if value != defaults[axis]}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class BestKnown:
    """The lowest latency that any placement of a problem is known to have.

    Attributes:
        identity: Of the problem.
        problem: Environment id, its arguments, model and devices; paths may have environment
            variables.
        latency_ms: The latency, as the simulator computes it.
        placement: Device of each unit in the order of the units, a base-36 digit each.
        best_single_ms: The fastest device that holds the whole model; None if none does.
        bound_ms: A lower bound of all placements.
        agent: Label of the agent that found the placement.
        commit: Commit of the source tree that it ran from; None if unknown.
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
        """True if one device alone is as fast: there is nothing to place."""
        return is_trivial(self.latency_ms, self.best_single_ms)

    @property
    def name(self) -> str:
        return name_problem(self.problem)

    @property
    def origin(self) -> str:
        """The agent that found it, with commit and date."""
        return ", ".join(filter(None, [self.agent, self.commit, self.date]))

    @property
    def assignment(self) -> IntArray:
        return np.array([int(digit, 36) for digit in self.placement], dtype=np.int64)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> BestKnown:
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
    return ", ".join([f"{stem} on {describe_devices(devices)}", *map(str, list_leaves(env_kwargs))])


def list_leaves(values: Mapping[str, Any]) -> Iterator[Any]:
    for _, value in sorted(values.items()):
        if isinstance(value, Mapping):
            yield from list_leaves(value)
        elif value is not None:
            yield value


def load_values(path: Path) -> list[BestKnown]:
    """Load best known values; ``UserError`` if the file is not valid."""
    try:
        return [BestKnown.from_json(values) for values in json.loads(path.read_text())]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a file of best known values: {error!r}") from error


def save_values(values: Iterable[BestKnown], path: Path) -> None:
    """Write a JSON array with a line for each value, by name."""
    ordered = sorted(values, key=lambda value: (value.name, value.identity.key))
    lines = [json.dumps(asdict(value)) for value in ordered]
    write_text(path, "[\n" + ",\n".join(lines) + "\n]\n")


def find_best_known(identity: ProblemIdentity | None) -> BestKnown | None:
    """The package's best known value of a problem, if there is one."""
    if identity is None:
        return None
    return next((value for value in load_values(VALUES) if value.identity == identity), None)
