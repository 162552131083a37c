"""Measure the candidates of a plan in rounds, and choose the one to save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from placement_gym.backends import (
    NO,
    UNDECIDED,
    WITHIN_NOISE,
    YES,
    Finalist,
    Finals,
    Measurement,
    judge_row,
)
from placement_gym.backends.measured import MeasuredBackend
from placement_gym.base import EngineError, join_words, progress_bar
from placement_gym.deployment.candidates import Candidate
from placement_gym.models import Member

UNMEASURED = {
    **dict.fromkeys(("measured_ms", "speedup", "noise", "n_submodels")),
    "warning": "",
    "interference": 0.0,
}
"""The measured part of a row without a measurement."""


@dataclass(frozen=True)
class Selection:
    """The measured candidates of a plan, and the one to save.

    Attributes:
        candidates: All of them; the pair for two phases is last.
        chosen: The best candidate with one placement.
        winner: The candidate to save: ``chosen``, or the pair if it wins.
        verdict: Whether a split pays, in one sentence.
        phases: The part of the report on the pair, if it was requested.
        stopped: Describes the incomplete plan if the user stopped it; otherwise empty.
    """

    candidates: Sequence[Candidate]
    chosen: Candidate
    winner: Candidate
    verdict: str
    phases: Mapping[str, Any] = field(default_factory=dict)
    stopped: str = ""


def measure_candidates(
    backend: MeasuredBackend, candidates: Sequence[Candidate], quiet: bool
) -> tuple[list[Candidate], str]:
    """Measure the candidates that fit in a race, and those that may be the plan once more.

    Also return a description of the incomplete plan if the user stopped it, otherwise an empty
    string. An interrupt before the first round is over is raised.
    """
    arms = [replace(one, error=backend.infeasibility(one.assignment)) for one in candidates]
    try:
        measured, stopped = race(backend, arms, quiet)
    except RuntimeError:
        # One of them does not run: try each alone, then race the others.
        for number, arm in enumerate(arms):
            if not arm.error and (error := backend.evaluate_ignoring_limits(arm.assignment).error):
                arms[number] = replace(arm, error=f"does not run: {error}")
        measured, stopped = race(backend, arms, quiet)
    # HETERO may have cut a model into more submodels than a constraint allows.
    for number, arm in enumerate(arms):
        if not arm.error:
            error = backend.problem.submodel_error(measured[arm.label].n_submodels)
            arms[number] = replace(arm, error=error)
    ran, finals = [arm for arm in arms if not arm.error], Finals(backend)
    finals.keep([arm.assignment for arm in ran], [measured[arm.label] for arm in ran])
    try:
        if not stopped:
            confirm(backend, finals, ran, quiet)
    except KeyboardInterrupt:
        stopped = "the plan of one race"
    if stopped:
        again = [arm.label for arm in ran if finals.finalists[arm.assignment.tobytes()].rechecked]
        stopped += (
            f", with only {join_words(again)} measured again"
            if again
            else ", and its fastest split was not measured again"
        )
    return [arm if arm.error else add_measurement(finals, arm) for arm in arms], stopped


def race(
    backend: MeasuredBackend, candidates: Sequence[Candidate], quiet: bool
) -> tuple[dict[str, Measurement], str]:
    """Measure the candidates without an error together; see ``measure_candidates``.

    Each is compared with the first, the fastest single device by the twin.
    """
    arms = [candidate for candidate in candidates if not candidate.error]
    arms.sort(key=lambda candidate: (not candidate.alone, candidate.predicted_ms))
    if not arms:
        return {}, ""
    stopped, plural = "", "s" * (len(arms) > 1)
    with show_rounds(backend, f"measuring {len(arms)} candidate{plural}", quiet) as rounds:
        try:
            measured: Sequence[Measurement] = backend.remeasure([one.assignment for one in arms])
        except KeyboardInterrupt:
            done, measured = rounds[-1] if rounds else (0.0, [])
            if not measured:
                raise
            most = backend.protocol.final_compiles
            stopped = f"the plan of {int(done)} of at most {most} rounds"
    return dict(zip((arm.label for arm in arms), measured, strict=True)), stopped


@contextmanager
def show_rounds(
    backend: MeasuredBackend, description: str, quiet: bool
) -> Iterator[list[tuple[float, Sequence[Measurement]]]]:
    """Show the rounds of ``backend.remeasure`` in this block; long rounds are fewer.

    Yields:
        A list that grows: the rounds done, with fractions, and the measurements of whole ones.
    """
    protocol = backend.protocol
    rounds: list[tuple[float, Sequence[Measurement]]] = []
    with progress_bar(
        protocol.final_compiles, "rounds at most", quiet, description=description
    ) as progress:
        task = progress.tasks[0]

        def show(done: float, measured: Sequence[Measurement]) -> None:
            rounds.append((done, measured))
            # Not by `update`, which would discard the times of earlier rounds.
            task.total = protocol.most_rounds((task.elapsed or 0.0) / done)
            progress.update(task.id, completed=done)

        backend.on_rounds = show
        yield rounds


def confirm(
    backend: MeasuredBackend, finals: Finals, candidates: Sequence[Candidate], quiet: bool
) -> None:
    """Measure the split to save, and any that may be faster, again without rivals.

    The fastest of several is partly luck, and a race ends before each is known exactly. A race of
    two had no other rivals: it counts unless it is doubtful.
    """
    doubtful = any(one.measurement.warning for one in finals.finalists.values())
    if finals.best_single is None or (len(candidates) < 3 and not doubtful):
        return
    labels = {one.assignment.tobytes(): one.label for one in candidates}
    while split := find_unconfirmed(finals):
        label = labels[split.assignment.tobytes()]
        with show_rounds(backend, f"measuring {label} again", quiet):
            finals.choose([split.assignment])


def find_unconfirmed(finals: Finals) -> Finalist | None:
    """Find the fastest split that may win, or the fastest that wins, if it had rivals."""
    splits = [one for one in finals.finalists.values() if np.ptp(one.assignment)]
    splits.sort(key=lambda one: -one.speedup_vs_best_single)
    may_win = [one for one in splits if one.beats_best_single != NO]
    wins = [one for one in splits if one.beats_best_single == YES]
    return next((one for one in (*may_win[:1], *wins[:1]) if not one.rechecked), None)


def add_measurement(finals: Finals, candidate: Candidate) -> Candidate:
    """Add a candidate's measurement, scaled to the machine's speed in the last race."""
    measured = finals.finalists[candidate.assignment.tobytes()].measurement
    if finals.best_single is not None:
        alone = finals.backend.problem.single(finals.best_single)
        single = finals.finalists[alone.tobytes()].measurement
        measured = scale(measured, single)
        # A doubtful time of the single device decides nothing.
        measured = replace(measured, warning=measured.warning or single.warning)
    return replace(candidate, measured=measured)


def scale(measured: Measurement, single: Measurement) -> Measurement:
    """Scale a measurement to a later one of its reference, as the machine's speed changes."""
    factor = single.latency_ms / measured.reference_ms
    models_ms = measured.models_ms
    return replace(
        measured,
        latency_ms=measured.latency_ms * factor,
        latency_p90_ms=measured.latency_p90_ms * factor,
        reference_ms=single.reference_ms,
        parts_ms={name: ms * factor for name, ms in measured.parts_ms.items()},
        models_ms=models_ms and tuple(ms * factor for ms in models_ms),
    )


def find_candidate(candidates: Sequence[Candidate], label: str) -> Candidate:
    return next(candidate for candidate in candidates if candidate.label == label)


def find_best_single(candidates: Sequence[Candidate]) -> Candidate | None:
    """Find the fastest single device that was measured; None if there is none."""
    singles = (one for one in candidates if one.alone and one.measured)
    return max(singles, key=lambda one: one.result.speedup, default=None)


def make_rows(
    candidates: Sequence[Candidate], models: Sequence[Member] = ()
) -> list[dict[str, Any]]:
    """Make the rows of the report, fastest first."""
    compared = find_best_single(candidates) is not None
    rows = [
        {
            "label": candidate.label,
            "alone": candidate.alone,
            "also": list(candidate.also),
            "predicted_ms": candidate.predicted_ms,
            "error": candidate.error,
            **measured_values(candidate.measured, compared, models),
        }
        for candidate in candidates
    ]
    return sorted(
        rows, key=lambda row: (-(row["speedup"] or 0.0), row["measured_ms"] or float("inf"))
    )


def measured_values(
    measurement: Measurement | None, compared: bool = True, models: Sequence[Member] = ()
) -> dict[str, Any]:
    """Return the measured part of a row; without a speed-up where no single device ran."""
    if measurement is None:
        return UNMEASURED
    return {
        "measured_ms": measurement.latency_ms,
        "speedup": measurement.speedup if compared else None,
        "noise": measurement.noise,
        "n_submodels": measurement.n_submodels,
        "memory_bytes": list(measurement.memory_bytes),
        "held_bytes": list(measurement.held_bytes),
        "warning": measurement.warning,
        "interference": measurement.interference,
        **measurement.parts_ms,
        **describe_throughput(measurement, models),
    }


def describe_throughput(measurement: Measurement, models: Sequence[Member] = ()) -> dict[str, Any]:
    """Describe requests per second and in flight; nothing if latency was measured.

    For a union a request is a round; each model has its own rate and median latency.
    """
    if not measurement.requests:
        return {}
    per_s = 1e3 / measurement.latency_ms
    values: dict[str, Any] = {
        "requests_per_s": per_s,
        "requests": measurement.requests,
        "streams": measurement.streams or 1,
    }
    if measurement.models_ms is not None:
        values["models"] = {
            model.name: {"inferences_per_s": model.rate * per_s, "latency_ms": latency_ms}
            for model, latency_ms in zip(models, measurement.models_ms, strict=True)
        }
    return values


def choose(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the label of the row to save, or raise ``EngineError`` if no candidate ran."""
    ran = [row for row in rows if row["measured_ms"] is not None]
    if not ran:
        reasons = "; ".join(f"{row['label']}: {row['error']}" for row in rows)
        raise EngineError(f"no candidate fits into memory and runs ({reasons})")
    singles = [row for row in ran if row["alone"]]
    winners = [row for row in ran if judge_row(row) == YES] if singles else ran
    return str([*winners, *singles][0]["label"])


def state_plan_verdict(rows: Sequence[Mapping[str, Any]], label: str) -> str:
    """State in one sentence whether a split pays."""
    winner = next(row for row in rows if row["label"] == label)
    if winner["speedup"] is None:
        return f"No single device may run the model; {label} is the fastest split."
    if not winner["alone"]:
        return f"{label} beats the best single device by {100 * (winner['speedup'] - 1):.1f} %."
    splits = [row for row in rows if not row["alone"] and row["speedup"] is not None]
    if warnings := [row["warning"] for row in splits if row["warning"]]:
        return UNDECIDED.format(f"a split beats {label}", warnings[0])
    if not splits:
        return f"No split beats {label}: no other placement was found."
    best = max(splits, key=lambda row: row["speedup"])
    if judge_row(best) == WITHIN_NOISE:
        return f"No split beats {label}; {best['label']} equals it within noise."
    return f"No split beats {label}: the best one, {best['label']}, is {best['speedup']:.2f} x."
