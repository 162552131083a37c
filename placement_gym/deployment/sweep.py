"""OpenVINO properties of the best candidates, tried in one more race."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from placement_gym.backends.measured.measuring import MeasuringBackend
from placement_gym.backends.protocol import Measurement
from placement_gym.backends.verdicts import UNDECIDED, YES, judge_row
from placement_gym.base.ratios import format_ratio
from placement_gym.deployment.candidates import Candidate
from placement_gym.deployment.plan_rows import measured_values
from placement_gym.deployment.selection import Selection, measure_candidates
from placement_gym.deployment.sweep_variants import Variant, extend, make_variants, read_abilities
from placement_gym.problem.placement import Placement, describe_saved
from placement_gym.problem.problem import Problem


@dataclass(frozen=True)
class Sweep:
    """Result of a sweep.

    Attributes:
        verdict: One sentence that answers whether a property pays.
        rows: Of the report: what was measured again, then the others, the fastest first. Speed-ups
            are over the plan.
        winner: The variant to hand over, if one wins.
        measured: Its measurement.
    """

    verdict: str
    rows: Sequence[dict[str, Any]] = ()
    winner: Variant | None = None
    measured: Measurement | None = None

    def report(self, tolerance: float) -> dict[str, Any]:
        """Return what the report says of it; the tolerance is that of outputs."""
        plan = self.winner.candidate.label if self.winner else None
        summary = {"verdict": self.verdict, "plan": plan, "tolerance": tolerance}
        return {**summary, "rows": list(self.rows)}

    def describe(self, problem: Problem) -> str:
        """Describe what is saved, in one line; empty if nothing wins."""
        if self.winner is None:
            return ""
        saved = describe_saved(Placement.of(problem, self.winner.base.assignment))
        return f"{saved}, with {self.winner.name}; {self.verdict}"

    def apply(self, problem: Problem, selection: Selection) -> tuple[Problem, Selection]:
        """Return the problem and the selection with the winner's devices, if there is one."""
        if self.winner is None or self.measured is None:
            return problem, selection
        base = self.winner.base
        measured = {**selection.measured, base.label: self.measured}
        return (
            replace(problem, devices=self.winner.devices),
            replace(selection, chosen=base, measured=measured),
        )


def sweep(backend: MeasuringBackend, selection: Selection, quiet: bool) -> Sweep:
    """Try properties of the plan, of the best split and of the best single device.

    Outputs have to stay as near to those of the reference as the plan's had to: a lower precision
    that exceeds the tolerance is a row with an error.
    """
    problem, plan = backend.problem, selection.chosen
    streams = not backend.protocol.goal.serial
    variants = make_variants(
        problem, list_bases(selection), read_abilities(problem.devices), streams
    )
    if not variants:
        return Sweep("The best candidates leave no property to try.")
    extended, candidates = extend(problem, variants)
    with closing(backend.with_problem(extended)) as swept:
        measured, errors = measure_candidates(swept, [plan, *candidates], quiet)
        rows = compare(plan, candidates, measured)
        if not rows or judge_row(rows[0]) != YES:
            return Sweep(state_verdict(rows, plan), rows + list_errors(errors))
        # The fastest of several is partly luck: what counts is measured without the others.
        finalists = list_finalists(rows, candidates)
        labels = [one.label for one in (plan, *finalists)]
        again = swept.remeasure([one.assignment for one in (plan, *finalists)])
    measured = dict(zip(labels, again, strict=True))
    winner = find_winner(plan, finalists, measured)
    # The winner's row is the first, though a split may be faster by less than the noise.
    finals = compare(plan, finalists, measured)
    finals.sort(key=lambda row: winner is None or row["label"] != winner.label)
    rows = finals + [row for row in rows if row["label"] not in labels]
    all_rows = rows + list_errors(errors)
    if winner is None:
        rival = finalists[-1].label if judge_row(rows[0]) == YES else ""
        return Sweep(state_verdict(rows, plan, rival), all_rows)
    position = [candidate.label for candidate in candidates].index(winner.label)
    return Sweep(state_verdict(rows, plan), all_rows, variants[position], measured[winner.label])


def list_finalists(
    rows: Sequence[Mapping[str, Any]], candidates: Sequence[Candidate]
) -> list[Candidate]:
    """The fastest candidate, and if that is a split the fastest single device, its rival."""
    by_label = {candidate.label: candidate for candidate in candidates}
    fastest, *others = (by_label[row["label"]] for row in rows)
    singles = [] if fastest.alone else [one for one in others if one.alone]
    return [fastest, *singles[:1]]


def find_winner(
    plan: Candidate, finalists: Sequence[Candidate], measured: Mapping[str, Measurement]
) -> Candidate | None:
    """The first finalist that beats the plan, and all that come after it."""
    for place, one in enumerate(finalists):
        others = (plan, *finalists[place + 1 :])
        if all(judge_row(compare(other, [one], measured)[0]) == YES for other in others):
            return one
    return None


def list_bases(selection: Selection) -> list[Candidate]:
    """The plan, the best split and the best single device, each once."""
    by_label = {candidate.label: candidate for candidate in selection.candidates}
    ran = [row for row in selection.rows if row["measured_ms"] is not None]
    labels = [selection.chosen.label]
    for is_single in (False, True):
        labels += [row["label"] for row in ran if row["alone"] == is_single][:1]
    return [by_label[label] for label in dict.fromkeys(labels)]


def compare(
    plan: Candidate, candidates: Sequence[Candidate], measured: Mapping[str, Measurement]
) -> list[dict[str, Any]]:
    """The rows of candidates that ran, what wins first, then the fastest; relative to the plan."""
    base = measured.get(plan.label)
    if base is None:
        return []
    rows = [
        {"label": candidate.label, "error": "", **measured_values(measured[candidate.label], base)}
        for candidate in candidates
        if candidate.label in measured
    ]
    return sorted(rows, key=lambda row: (judge_row(row) != YES, -row["speedup"]))


def list_errors(errors: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of candidates that did not run."""
    return [
        {"label": label, "error": error, **measured_values(None, None)}
        for label, error in errors.items()
    ]


def state_verdict(rows: Sequence[Mapping[str, Any]], plan: Candidate, rival: str = "") -> str:
    """One sentence that answers whether a property pays; a split may not beat its rival."""
    if not rows:
        return f"Of what was tried nothing ran beside {plan.label}: each row says why."
    best = rows[0]
    ratio = f"{format_ratio(best['speedup'], best['noise'], 2)} x"
    if rival:
        return f"{best['label']} is {ratio} {plan.label}, but {rival} equals it within noise."
    if judge_row(best) == YES:
        return f"{best['label']}: {ratio} {plan.label}."
    if best["warning"]:
        return UNDECIDED.format(f"a property beats {plan.label}", best["warning"])
    return (
        f"No property beats {plan.label} beyond the noise; the best, {best['label']}, is {ratio}."
    )
