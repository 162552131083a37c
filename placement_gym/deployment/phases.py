"""One placement for the prompt and another for tokens, if that is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.backends import UNDECIDED, WITHIN_NOISE, YES, Measurement, judge
from placement_gym.backends.measured import MeasuredBackend, holds_model
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import FloatArray, join_noise
from placement_gym.deployment.candidates import Candidate, collect, solve_program
from placement_gym.deployment.plan_rows import make_rows
from placement_gym.deployment.rounds import show_rounds
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable

LABEL = "phases"
"""Label of the row of two placements."""


@dataclass(frozen=True)
class Phased:
    """Two placements, measured next to the best single one.

    Attributes:
        prefill: Placement of the prompt.
        decode: Placement of the tokens.
        candidate: Both as one candidate.
        row: Of the report.
        answer: Answer of ``judge``: whether they beat the best single placement.
    """

    prefill: Candidate
    decode: Candidate
    candidate: Candidate
    row: dict[str, Any]
    answer: str

    @property
    def wins(self) -> bool:
        return self.answer == YES


def add_phase_candidates(
    backend: MeasuredBackend,
    twin: SimulatedBackend,
    candidates: Sequence[Candidate],
    time_limit_s: float,
) -> list[Candidate]:
    """Add the best placements for the prompt alone and for the tokens alone."""
    labels = ("milp of the prompt", "milp of the tokens")
    solved = [
        (label, solve_program(twin.problem, costs, time_limit_s, label).assignment)
        for label, costs in zip(labels, split_costs(backend, twin.costs), strict=True)
    ]
    placements = [(label, assignment) for label, assignment in solved if assignment is not None]
    return collect(twin, placements, candidates)


def split_costs(backend: MeasuredBackend, costs: CostTable) -> tuple[CostTable, CostTable]:
    """Split a profile into the costs of the prompt and those of all tokens together."""
    graph = backend.problem.units.graph
    share, part = measure_prompt_shares(backend), 1.0 / graph.n_inferences
    prompt = replace(
        costs,
        operator_ms=costs.operator_ms * share,
        transfer_size=graph.phases[0][1].tensors.size_bytes / 1e6,
        link_ms=costs.link_ms * part,
        submodel_ms=costs.submodel_ms * part,
    )
    tokens = replace(
        costs,
        operator_ms=costs.operator_ms - prompt.operator_ms,
        transfer_size=costs.transfer_size - prompt.transfer_size,
        link_ms=costs.link_ms - prompt.link_ms,
        submodel_ms=costs.submodel_ms - prompt.submodel_ms,
    )
    return prompt, tokens


def measure_prompt_shares(backend: MeasuredBackend) -> FloatArray:
    """Measure the prompt's share of the time of each operator: (n_operators, n_devices).

    A device that cannot hold the model, and is never run alone, gets the mean of the others.
    """
    problem = backend.problem
    shares: dict[int, FloatArray] = {}
    for device in range(len(problem.devices)):
        if holds_model(problem, device):
            total = backend.measure_operators(device)
            prompt = backend.measure_operators(device, prefill=True)
            even = np.full(len(total), 1.0 / problem.units.graph.n_inferences)
            shares[device] = np.divide(prompt, total, out=even, where=total > 0.0).clip(0.0, 1.0)
    mean = np.stack([*shares.values()]).mean(axis=0)
    return np.stack([shares.get(device, mean) for device in range(len(problem.devices))], axis=1)


def measure_phases(
    backend: MeasuredBackend,
    candidates: Sequence[Candidate],
    measured: Mapping[str, Measurement],
    rows: Sequence[Mapping[str, Any]],
    label: str,
    quiet: bool,
) -> Phased | None:
    """Measure the best two placements next to the best one; None if no two look better."""
    pair = choose_pair(backend.problem, candidates, measured)
    if pair is None:
        return None
    by_label = {candidate.label: candidate for candidate in candidates}
    single = next((str(row["label"]) for row in rows if row["alone"] and not row["error"]), label)
    rivals = list(dict.fromkeys((single, label)))
    arms = [*(by_label[name] for name in rivals), join(*pair, backend.problem, measured)]
    try:
        with show_rounds(backend, "measuring two placements", quiet):
            measurements = backend.remeasure([arm.assignment for arm in arms])
    except RuntimeError as error:
        (row,) = make_rows(arms[-1:], {}, {LABEL: f"does not run: {error}"})
        return Phased(*pair, arms[-1], row, "")
    by_row = {arm.label: measurement for arm, measurement in zip(arms, measurements, strict=True)}
    row = next(row for row in make_rows(arms, by_row, {}) if row["label"] == LABEL)
    return Phased(*pair, arms[-1], row, judge_phases(by_row[LABEL], by_row[label]))


def judge_phases(phased: Measurement, single: Measurement) -> str:
    """Compare two placements with the single placement of the plan; see ``Phased.answer``."""
    noise = join_noise(phased.noise, single.noise)
    return judge(phased.speedup / single.speedup, noise, phased.warning or single.warning)


def choose_pair(
    problem: Problem, candidates: Sequence[Candidate], measured: Mapping[str, Measurement]
) -> tuple[Candidate, Candidate] | None:
    """Choose the fastest placements for the prompt and for tokens that fit together.

    None if the same placement is the fastest for both.
    """
    ran = [candidate for candidate in candidates if candidate.label in measured]
    fitting = [
        (prefill, decode)
        for prefill, decode in product(ran, ran)
        if prefill is decode
        or not problem.over_limit(
            problem.memory_bytes(prefill.assignment) + problem.memory_bytes(decode.assignment)
        )
    ]
    if not fitting:
        return None
    prefill, decode = min(fitting, key=lambda two: predict_ms(problem, two[0], two[1], measured))
    return None if prefill is decode else (prefill, decode)


def predict_ms(
    problem: Problem, prefill: Candidate, decode: Candidate, measured: Mapping[str, Measurement]
) -> float:
    """Predict the scenario's latency by measured phases, without the transfer of the state."""
    first, second = measured[prefill.label].parts_ms, measured[decode.label].parts_ms
    # All inferences but the first decode a token.
    return first["prefill_ms"] + (problem.units.graph.n_inferences - 1.0) * second["token_ms"]


def join(
    prefill: Candidate, decode: Candidate, problem: Problem, measured: Mapping[str, Measurement]
) -> Candidate:
    """Join two placements into one candidate, predicted by their measured phases."""
    pair = np.stack([prefill.assignment, decode.assignment])
    return Candidate(LABEL, pair, predict_ms(problem, prefill, decode, measured))


def describe_phases(phased: Phased | None, label: str) -> str:
    """State in one sentence whether two placements pay."""
    if phased is None:
        return f"No two placements that fit are predicted to beat {label} for both phases."
    pair = f"prompts on {phased.prefill.label} and tokens on {phased.decode.label}"
    row = phased.row
    if row["error"]:
        return f"{pair[0].upper()}{pair[1:]}: {row['error']}."
    if row["warning"]:
        return UNDECIDED.format(f"{pair} beat {label}", row["warning"])
    verb = {YES: "beat", WITHIN_NOISE: "equal, within noise,"}.get(phased.answer, "do not beat")
    return f"{pair[0].upper()}{pair[1:]} {verb} {label}, the best for both phases."


def report_phases(phased: Phased | None, label: str, stem: Path) -> dict[str, Any]:
    """Return the part of the report on two placements."""
    verdict = {"verdict": describe_phases(phased, label)}
    if phased is None:
        return verdict
    files = [f"{stem}-{phase}.json" for phase in ("prefill", "decode")]
    return {
        **verdict,
        "prefill": phased.prefill.label,
        "decode": phased.decode.label,
        "wins": phased.wins,
        **({"files": files} if phased.wins else {}),
    }
