"""Measure the candidates of a plan in rounds, and choose the one to save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from placement_gym.backends import NO, UNDECIDED, WITHIN_NOISE, YES, Measurement, judge_row
from placement_gym.backends.measured import MeasuredBackend
from placement_gym.base import EngineError, join_noise, progress_bar
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
        candidates: All of them, two placements for two phases last.
        chosen: The best candidate with one placement.
        winner: The candidate to save: ``chosen``, or two placements if these win.
        verdict: Whether a split pays, in one sentence.
        phases: The part of the report on two placements, if they were asked for.
        stopped: Describes an incomplete selection that the user stopped; otherwise empty.
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

    Returns:
        The candidates with their measurements and errors; and a description of the incomplete
        plan if the user stopped it after the first round, otherwise an empty string.

    Raises:
        KeyboardInterrupt: The user stopped it before.
    """
    measured, stopped = race(backend, candidates, quiet)
    if not stopped:
        try:
            return confirm(backend, measured, quiet), ""
        except KeyboardInterrupt:
            stopped = "the plan of one race"
    return measured, f"{stopped}, and its fastest split was not measured again"


def race(
    backend: MeasuredBackend, candidates: Sequence[Candidate], quiet: bool
) -> tuple[list[Candidate], str]:
    """Measure the candidates that fit into memory in turns, see ``measure_candidates``.

    All are compared to the first, the fastest single device by the twin.
    """
    arms = [replace(one, error=backend.infeasibility(one.assignment)) for one in candidates]
    try:
        return measure_in_turns(backend, arms, quiet)
    except RuntimeError:
        # One of them does not run: each says so alone, and the others are measured.
        for number, arm in enumerate(arms):
            if not arm.error and (error := backend.evaluate_ignoring_limits(arm.assignment).error):
                arms[number] = replace(arm, error=f"does not run: {error}")
        return measure_in_turns(backend, arms, quiet)


def measure_in_turns(
    backend: MeasuredBackend, candidates: Sequence[Candidate], quiet: bool
) -> tuple[list[Candidate], str]:
    """Measure the candidates that have no error, by the rounds until now if the user stops it."""
    arms = [candidate for candidate in candidates if not candidate.error]
    arms.sort(key=lambda candidate: (not candidate.alone, candidate.predicted_ms))
    if not arms:
        return list(candidates), ""
    stopped, plural = "", "s" * (len(arms) > 1)
    with show_rounds(backend, f"measuring {len(arms)} candidate{plural}", quiet) as rounds:
        try:
            measurements: Sequence[Measurement] = backend.remeasure(
                [arm.assignment for arm in arms]
            )
        except KeyboardInterrupt:
            done, measurements = rounds[-1] if rounds else (0.0, [])
            if not measurements:
                raise
            most = backend.protocol.final_compiles
            stopped = f"the plan of {int(done)} of at most {most} rounds"
    ran = {}
    for arm, measured in zip(arms, measurements, strict=True):
        # HETERO may have cut it into more submodels than a constraint allows.
        error = backend.problem.submodel_error(measured.n_submodels)
        ran[arm.label] = replace(arm, measured=None if error else measured, error=error)
    return [ran.get(candidate.label, candidate) for candidate in candidates], stopped


@contextmanager
def show_rounds(
    backend: MeasuredBackend, description: str, quiet: bool
) -> Iterator[list[tuple[float, Sequence[Measurement]]]]:
    """Show the rounds of ``backend.remeasure`` in this block; long rounds are fewer.

    Yields:
        A list that grows: rounds that are done, a part of one included, and the measurements by
        whole ones.
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
    backend: MeasuredBackend, candidates: Sequence[Candidate], quiet: bool
) -> list[Candidate]:
    """Measure the placement to save, and any that may be faster, again without rivals.

    The fastest of several is partly luck, and a race ends before each is known exactly. A race of
    two was without rivals already, and counts unless it is doubtful.
    """
    found, confirmed = list(candidates), set[str]()
    ran = [one.result for one in found if one.measured]
    if len(ran) < 3 and not any(measurement.warning for measurement in ran):
        return found
    while True:
        rows = make_rows(found, backend.problem.units.graph.models)
        labels = [label for label in (find_contender(rows), choose(rows)) if label not in confirmed]
        if not labels:
            return found
        confirmed.add(labels[0])
        found = measure_again(backend, found, labels[0], quiet)


def measure_again(
    backend: MeasuredBackend, candidates: Sequence[Candidate], label: str, quiet: bool
) -> list[Candidate]:
    """Measure a candidate again next to the fastest single device; this measurement counts.

    Do nothing if the candidate is a single device, or if no single device runs.
    """
    chosen, single = find_candidate(candidates, label), find_best_single(candidates)
    if chosen.alone or single is None:
        return list(candidates)
    with show_rounds(backend, f"measuring {label} again", quiet):
        _, again = backend.remeasure([single.assignment, chosen.assignment])
    scaled = scale(again, single.result)
    return [replace(one, measured=scaled) if one is chosen else one for one in candidates]


def scale(again: Measurement, single: Measurement) -> Measurement:
    """Scale a later measurement to an earlier one of its reference: the machine's speed changes."""
    factor = single.latency_ms / again.reference_ms
    return replace(
        again,
        latency_ms=again.latency_ms * factor,
        latency_p90_ms=again.latency_p90_ms * factor,
        reference_ms=single.reference_ms,
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
    """Make the rows of the report, fastest first: a measurement or an error of each candidate.

    Speed-ups are over the fastest single device; they allow for drift of the machine, which times
    do not.
    """
    single = find_best_single(candidates)
    best = single.measured if single else None
    rows = [
        {
            "label": candidate.label,
            "alone": candidate.alone,
            "also": list(candidate.also),
            "predicted_ms": candidate.predicted_ms,
            "error": candidate.error,
            **measured_values(candidate.measured, best, models),
        }
        for candidate in candidates
    ]
    return sorted(
        rows, key=lambda row: (-(row["speedup"] or 0.0), row["measured_ms"] or float("inf"))
    )


def measured_values(
    measurement: Measurement | None, best: Measurement | None, models: Sequence[Member] = ()
) -> dict[str, Any]:
    """Return the measured part of a row; ``best`` is the fastest single device, if any runs."""
    if measurement is None:
        return UNMEASURED
    return {
        "measured_ms": measurement.latency_ms,
        "speedup": None if best is None else measurement.speedup / best.speedup,
        "noise": join_noise(measurement.noise, 0.0 if best in (None, measurement) else best.noise),
        "n_submodels": measurement.n_submodels,
        "memory_bytes": list(measurement.memory_bytes),
        "held_bytes": list(measurement.held_bytes),
        "warning": measurement.warning or (best.warning if best else ""),
        "interference": max(measurement.interference, best.interference if best else 0.0),
        **measurement.parts_ms,
        **describe_throughput(measurement, models),
    }


def describe_throughput(measurement: Measurement, models: Sequence[Member] = ()) -> dict[str, Any]:
    """Describe results a second and requests in flight; nothing if latency was measured.

    Results of a union are rounds; each of its models has its inferences a second and its median
    latency from start to result.
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


def find_contender(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the label of the fastest row that may not be slower than the best single device."""
    ran = [row for row in rows if row["measured_ms"] is not None]
    may_win = (row for row in ran if row["speedup"] is None or judge_row(row) != NO)
    return str(next(may_win, {"label": choose(rows)})["label"])


def state_plan_verdict(rows: Sequence[Mapping[str, Any]], label: str) -> str:
    """State in one sentence whether a split pays."""
    winner = next(row for row in rows if row["label"] == label)
    if winner["speedup"] is None:
        return f"No single device holds the model; {label} is the fastest split."
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
