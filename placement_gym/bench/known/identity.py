"""Identity of simulated problems, independent of where their files are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from placement_gym.backends import Backend
from placement_gym.backends.simulated import SimulatedBackend, default_schedule
from placement_gym.bench.run import Json
from placement_gym.problem.costs import Semantics, parse_schedule

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
        _digest_units(problem.units.names),
        _describe_limits(device.to_json() for device in problem.devices),
        _changed_axes(backend.semantics),
    )


def identify_row(row: Json, score_on: Mapping[str, Any] | None = None) -> ProblemIdentity | None:
    """The identity of the problem that a result row belongs to, from the row alone.

    Args:
        row: Of a run.
        score_on: Arguments of ``gym.make`` that differ where the row was scored a second time, to
            identify that problem instead.

    Returns:
        None where latencies are measured, the run has no placement, or ``score_on`` changes more
        than the schedule.
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
        _digest_units(row["placement"]),
        _describe_limits(row["devices"]),
        _changed_axes(parse_schedule(schedule, kwargs.get("objective", "latency"))),
    )


def _describe_limits(devices: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    specs = list(devices)
    # a pool without a limit changes nothing
    limited = {d.get("memory_pool") for d in specs if any(key in d for key in LIMITS)}
    names = ("name", *LIMITS)
    return tuple(
        {key: device[key] for key in names if key in device}
        | ({"memory_pool": pool} if (pool := device.get("memory_pool")) in limited and pool else {})
        for device in specs
    )


def _changed_axes(semantics: Semantics) -> dict[str, Any]:
    defaults = asdict(Semantics())
    return {axis: value for axis, value in asdict(semantics).items() if value != defaults[axis]}


def _digest_units(names: Iterable[str]) -> str:
    return digest("\n".join(names))


def digest(text: str) -> str:
    """Sixteen hex digits of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
