"""Measure the candidates of a plan and select the one to save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from placement_gym.backends import Measurement
from placement_gym.backends.measured import MeasuredBackend, OnRounds
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import EngineError, progress_bar, show_step
from placement_gym.deployment.candidates import (
    Candidate,
    add_variants,
    collect,
    propose_candidates,
    propose_pipelines,
)
from placement_gym.deployment.phases import Phased, add_phase_candidates, measure_phases
from placement_gym.deployment.plan_rows import choose, find_contender, make_rows
from placement_gym.deployment.rounds import show_rounds
from placement_gym.problem.costs import CostTable, parse_schedule

UNCONFIRMED = "its fastest split was not measured again"


class StoppedRace(KeyboardInterrupt):
    """The user stopped a race after some rounds; holds the results of ``measure_candidates``."""

    def __init__(
        self, message: str, measured: dict[str, Measurement], errors: dict[str, str]
    ) -> None:
        super().__init__(message)
        self.measured, self.errors = measured, errors


@dataclass(frozen=True)
class Selection:
    """Candidates that were proposed and measured, and the one to save.

    Attributes:
        candidates: All of them.
        bound_ms: Lower bound of the latency by the profile; None without one.
        measured: Label -> measurement of those that ran.
        rows: Of the report, one for each candidate.
        chosen: The best candidate with one placement.
        pair: Two placements for two phases, if they were measured.
        stopped: Describes an incomplete selection that the user stopped; otherwise empty.
    """

    candidates: Sequence[Candidate]
    bound_ms: float | None
    measured: Mapping[str, Measurement]
    rows: Sequence[dict[str, Any]]
    chosen: Candidate
    pair: Phased | None = None
    stopped: str = ""

    @property
    def result(self) -> Measurement:
        """The measurement of ``chosen``."""
        return self.measured[self.chosen.label]

    @property
    def winner(self) -> Candidate:
        """The candidate to save: two placements if these win."""
        return self.pair.candidate if self.pair and self.pair.wins else self.chosen


def select(
    backend: MeasuredBackend, costs: CostTable, time_limit_s: float, phases: bool, quiet: bool
) -> Selection:
    """Propose candidates by a profile, measure them, and choose.

    Raises:
        EngineError: No candidate fits and runs.
    """
    objective = backend.protocol.objective
    twin = SimulatedBackend(backend.problem, costs, parse_schedule("serial", objective))
    propose = propose_candidates if backend.protocol.goal.serial else propose_pipelines
    with progress_bar(None, "", quiet, description="solving"):
        candidates, bound_ms = propose(twin, time_limit_s)
        show_step("varying splits that nearly fill a device")
        candidates = add_variants(twin, candidates)
        if backend.problem.units.graph.models:
            candidates = add_choice_of_auto(backend, twin, candidates)
        if phases:
            candidates = add_phase_candidates(backend, twin, candidates, time_limit_s)
    # If the user stops, the measurements so far are reported as incomplete.
    measured, stopped = dict[str, Measurement](), ""
    try:
        measured, errors = measure_candidates(backend, candidates, quiet)
        measured = confirm(backend, candidates, measured, errors, quiet)
    except StoppedRace as stop:
        measured, errors, stopped = stop.measured, stop.errors, f"{stop}, and {UNCONFIRMED}"
    except KeyboardInterrupt:
        if not measured:
            raise
        stopped = f"the plan of one race, and {UNCONFIRMED}"
    rows = make_rows(candidates, measured, errors, backend.problem.units.graph.models)
    label = choose(rows)
    winner = next(candidate for candidate in candidates if candidate.label == label)
    pair = None
    try:
        if phases and not stopped:
            pair = measure_phases(backend, candidates, measured, rows, label, quiet)
    except KeyboardInterrupt:
        stopped = "the best single placement: no two were measured"
    return Selection(candidates, bound_ms, measured, rows, winner, pair, stopped)


def add_choice_of_auto(
    backend: MeasuredBackend, twin: SimulatedBackend, candidates: Sequence[Candidate]
) -> list[Candidate]:
    """Add the placement on the devices that OpenVINO's AUTO chooses for each model of a union."""
    try:
        return collect(twin, [("AUTO", backend.own_choice("AUTO"))], candidates)
    except EngineError:  # without AUTO the others are compared
        return list(candidates)


def measure_candidates(
    backend: MeasuredBackend, candidates: Sequence[Candidate], quiet: bool
) -> tuple[dict[str, Measurement], dict[str, str]]:
    """Measure all candidates that fit into memory in a race.

    All are compared to the first, the fastest single device by the twin.

    Returns:
        Label -> measurement of the candidates that ran, and label -> error of the others.

    Raises:
        StoppedRace: The user stopped it after its first round.
    """
    errors = {c.label: backend.infeasibility(c.assignment) for c in candidates}
    allowed = [candidate for candidate in candidates if not errors[candidate.label]]
    allowed.sort(key=lambda candidate: (not candidate.alone, candidate.predicted_ms))
    description = f"measuring {len(allowed)} candidate{'s' * (len(allowed) > 1)}"
    with show_rounds(backend, description, quiet) as show:
        try:
            measured, stopped = race(backend, allowed, show)
        except RuntimeError:
            for candidate in allowed:
                error = backend.evaluate_ignoring_limits(candidate.assignment).error
                errors[candidate.label] = error and f"does not run: {error}"
            allowed = [candidate for candidate in allowed if not errors[candidate.label]]
            measured, stopped = race(backend, allowed, show) if allowed else ([], "")
    for candidate, m in zip(allowed, measured, strict=True):
        errors[candidate.label] = backend.problem.submodel_error(m.n_submodels)
    ran = zip(allowed, measured, strict=True)
    found = {candidate.label: m for candidate, m in ran if not errors[candidate.label]}
    errors = {label: error for label, error in errors.items() if error}
    if stopped:
        raise StoppedRace(stopped, found, errors)
    return found, errors


def race(
    backend: MeasuredBackend, candidates: Sequence[Candidate], show: OnRounds
) -> tuple[list[Measurement], str]:
    """Measure candidates in turns.

    Returns:
        The measurements; and a description of the incomplete plan if the user stopped the race.

    Raises:
        KeyboardInterrupt: The user stopped it before its first round was over.
    """
    done, known = 0, list[Measurement]()

    def note(rounds: float, measured: Sequence[Measurement]) -> None:
        nonlocal done, known
        done, known = int(rounds), list(measured)
        show(rounds, measured)

    backend.on_rounds = note
    try:
        return backend.remeasure([candidate.assignment for candidate in candidates]), ""
    except KeyboardInterrupt:
        if not known:
            raise
        rounds = f"{done} of at most {backend.protocol.final_compiles} rounds"
        return known, f"the plan of {rounds}"


def confirm(
    backend: MeasuredBackend,
    candidates: Sequence[Candidate],
    measured: dict[str, Measurement],
    errors: Mapping[str, str],
    quiet: bool,
) -> dict[str, Measurement]:
    """Measure the placement to save, and any that may be faster, again without rivals.

    The fastest of several is partly luck, and a race ends before each is known exactly.

    Raises:
        EngineError: No candidate ran.
    """
    by_label = {candidate.label: candidate for candidate in candidates}
    confirmed = set[str]()
    while True:
        rows = make_rows(candidates, measured, errors, backend.problem.units.graph.models)
        labels = [label for label in (find_contender(rows), choose(rows)) if label not in confirmed]
        if not labels:
            return measured
        confirmed.add(labels[0])
        measured = measure_again(backend, candidates, measured, by_label[labels[0]], quiet)


def measure_again(
    backend: MeasuredBackend,
    candidates: Sequence[Candidate],
    measured: Mapping[str, Measurement],
    chosen: Candidate,
    quiet: bool,
) -> dict[str, Measurement]:
    """Measure a candidate again next to the fastest single device; this measurement counts.

    Do nothing if the candidate is a single device, or if no single device runs.
    """
    singles = [c for c in candidates if c.alone and c.label in measured]
    if chosen.alone or not singles:
        return dict(measured)
    single = max(singles, key=lambda candidate: measured[candidate.label].speedup)
    with show_rounds(backend, f"measuring {chosen.label} again", quiet):
        _, remeasured = backend.remeasure([single.assignment, chosen.assignment])
    # Scale it to the earlier measurements, because the machine's speed changes.
    earlier = measured[single.label]
    factor = earlier.latency_ms / remeasured.reference_ms
    return {
        **measured,
        chosen.label: replace(
            remeasured,
            latency_ms=remeasured.latency_ms * factor,
            latency_p90_ms=remeasured.latency_p90_ms * factor,
            reference_ms=earlier.reference_ms,
        ),
    }
