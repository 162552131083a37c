"""Objectives: the latency of a request alone, or the time between results of several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from placement_gym.base import UserError, check_choice, check_integer
from placement_gym.models import Member
from placement_gym.workloads.request import Request


@dataclass(frozen=True)
class Objective:
    """The objective of a placement, for requests of any kind; ``OBJECTIVES`` lists all.

    Attributes:
        name: As ``gym.make`` takes it.
        repeats: Largest number of samples of a step, where the user states none.
        final_repeats: Largest number of samples in each compilation of a finalist.
        schedule: The only schedule that computes it; None if any other does.
        suffix: Of the names of a plan's files: a model may have a plan for each objective.
        serial: Whether requests run one after another; if not, several are in flight.
    """

    name: str
    repeats: int
    final_repeats: int
    schedule: str | None
    suffix: str
    serial: bool

    def check_requests(self, requests: int | None) -> None:
        """Raise ``UserError`` if so many requests cannot be in flight; None leaves it open."""
        if requests is None:
            return
        if self.serial:
            raise UserError(
                "requests belong to objective='throughput': latency is that of one request"
            )
        check_integer("requests (None: one more than devices)", requests, 1)

    def check_rates(self, members: Iterable[Member]) -> None:
        """Raise ``UserError`` if the rates of a union's models mean nothing.

        In a round of requests in flight each model runs as often as its rate says.
        """
        if self.serial and any(rate > 1 for _, rate in members):
            raise UserError(
                "rates are relative numbers of inferences, which a latency does not have: use "
                "objective='throughput' (--objective throughput), or remove the rates"
            )

    def check_phases(self, request: Request) -> None:
        """Raise ``UserError`` if a request has no prompt and tokens to plan for one by one."""
        if not self.serial:
            raise UserError("phases are planned for latency: leave phases or the objective out")
        if not request.phased:
            raise UserError(
                "phases are a prompt and its tokens, which this model does not have: leave phases "
                "out"
            )

    def describe_failure(self, request: Request) -> dict[str, Any]:
        """The fields of a failed placement's measurement, apart from its latency."""
        if self.serial:
            return {"parts_ms": dict.fromkeys(request.parts, float("nan"))}
        return {"requests": 0, "streams": 0}


# A window is many requests: more windows say less than another compilation does.
LATENCY = Objective("latency", 6, 4, schedule=None, suffix="", serial=True)
THROUGHPUT = Objective("throughput", 4, 2, schedule="load", suffix="-throughput", serial=False)
OBJECTIVES = {one.name: one for one in (LATENCY, THROUGHPUT)}


def objective_of(schedule: str) -> Objective:
    """The objective that a schedule computes."""
    return next(
        (objective for objective in OBJECTIVES.values() if objective.schedule == schedule), LATENCY
    )


def find_objective(name: Any) -> Objective:
    """The objective that ``gym.make`` means.

    Raises:
        UserError: No objective has this name.
    """
    check_choice("objective", name, OBJECTIVES)
    return OBJECTIVES[name]
