"""Objectives: the latency of one request, or the time between results of several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from placement_gym.base import UserError, check_choice, check_integer
from placement_gym.models import Member
from placement_gym.workloads.request import Request


@dataclass(frozen=True)
class Objective:
    """The objective of a placement; ``OBJECTIVES`` lists all.

    Attributes:
        name: As for ``gym.make``.
        repeats: Largest number of samples of a step, if the user states none.
        final_repeats: Largest number of samples in each compilation of a finalist.
        schedule: The only schedule that simulates it; None: all others do.
        suffix: Suffix of a plan's files, so a model may have a plan for each objective.
        serial: Whether requests run one after another, not several at a time.
    """

    name: str
    repeats: int
    final_repeats: int
    schedule: str | None
    suffix: str
    serial: bool

    def check_requests(self, requests: int | None) -> None:
        """Raise ``UserError`` if so many requests cannot be in flight."""
        if requests is None:
            return
        if self.serial:
            raise UserError(
                "requests belong to objective='throughput': latency is that of one request"
            )
        check_integer("requests (None: one more than devices)", requests, 1)

    def check_rates(self, members: Iterable[Member]) -> None:
        """Raise ``UserError`` if rates of a union's models mean nothing, as for a latency."""
        if self.serial and any(rate > 1 for _, rate in members):
            raise UserError(
                "rates are relative numbers of inferences, which a latency does not have: use "
                "objective='throughput' (--objective throughput), or remove the rates"
            )

    def check_phases(self, request: Request) -> None:
        """Raise ``UserError`` unless the prompt and the tokens can be planned separately."""
        if not self.serial:
            raise UserError("phases are planned for latency: leave phases or the objective out")
        if not request.phased:
            raise UserError(
                "phases are a prompt and its tokens, which this model does not have: leave phases "
                "out"
            )

    def describe_failure(self, request: Request) -> dict[str, Any]:
        """The fields of a failed measurement, apart from its latency."""
        if self.serial:
            return {"parts_ms": dict.fromkeys(request.parts, float("nan"))}
        return {"requests": 0, "streams": 0}


# A sample of throughput is many requests: another compilation tells more than another sample.
LATENCY = Objective("latency", 6, 4, schedule=None, suffix="", serial=True)
THROUGHPUT = Objective("throughput", 4, 2, schedule="load", suffix="-throughput", serial=False)
OBJECTIVES = {one.name: one for one in (LATENCY, THROUGHPUT)}


def objective_of(schedule: str) -> Objective:
    """The objective that a schedule simulates."""
    return THROUGHPUT if schedule == THROUGHPUT.schedule else LATENCY


def find_objective(name: Any) -> Objective:
    """The objective of this name; ``UserError`` if there is none."""
    check_choice("objective", name, OBJECTIVES)
    return OBJECTIVES[name]
