"""Plan one placement for the prompt and another for tokens, if that is faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from placement_gym.backends import NO, UNDECIDED, WITHIN_NOISE, YES, judge
from placement_gym.backends.measured import MeasuredBackend, holds_model
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import FloatArray, join_noise
from placement_gym.deployment.candidates import Candidate, collect, solve_program
from placement_gym.deployment.selection import find_best_single, scale, show_rounds
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable

LABEL = "phases"
"""Label of the row of the pair."""


def add_phase_candidates(
    backend: MeasuredBackend,
    twin: SimulatedBackend,
    candidates: Sequence[Candidate],
    time_limit_s: float,
) -> list[Candidate]:
    """Add the best placements for the prompt alone and for the tokens alone."""
    labels = ("milp of the prompt", "milp of the tokens")
    placements = [
        solution
        for label, costs in zip(labels, split_costs(backend, twin.costs), strict=True)
        for solution in solve_program(twin.problem, costs, time_limit_s, label)[0]
    ]
    return collect(twin, placements, candidates)


def split_costs(backend: MeasuredBackend, costs: CostTable) -> tuple[CostTable, CostTable]:
    """Split a profile into the costs of the prompt and those of all tokens together."""
    graph = backend.problem.units.graph
    _, prompt_graph = graph.phases[0]
    share, part = measure_prompt_shares(backend), 1.0 / graph.n_inferences
    prompt = replace(
        costs,
        operator_ms=costs.operator_ms * share,
        transfer_size=prompt_graph.tensors.size_bytes / 1e6,
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
    """(n_operators, n_devices) measured shares of the prompt in each operator's time.

    A device that cannot hold the model never runs alone: it gets the mean of the others.
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
    backend: MeasuredBackend, candidates: Sequence[Candidate], chosen: Candidate, quiet: bool
) -> tuple[list[Candidate], dict[str, Any]]:
    """Measure the best pair next to the best single device and the chosen placement.

    Return the candidates, the pair last if it was measured, and the report on it; see ``plan``.
    """
    pair = choose_pair(backend.problem, candidates)
    if pair is None:
        none = f"No two placements that fit are predicted to beat {chosen.label} for both phases."
        return list(candidates), {"verdict": none}
    prefill, decode = pair
    assignments = np.stack([prefill.assignment, decode.assignment])
    joint = Candidate(LABEL, assignments, predict_ms(backend.problem, *pair))
    single = find_best_single(candidates) or chosen
    rivals = [chosen] if single is chosen else [single, chosen]
    answer, warning = NO, ""
    try:
        with show_rounds(backend, "measuring two placements", quiet):
            *_, one, two = backend.remeasure([arm.assignment for arm in (*rivals, joint)])
    except RuntimeError as error:
        joint = replace(joint, error=f"does not run: {error}")
    else:
        joint = replace(joint, measured=scale(two, single.result))
        warning = two.warning or one.warning
        answer = judge(two.speedup / one.speedup, join_noise(two.noise, one.noise), warning)
    names = f"prompts on {prefill.label} and tokens on {decode.label}"
    return [*candidates, joint], {
        "verdict": state_phase_verdict(names, joint.error, warning, answer, chosen.label),
        "prefill": prefill.label,
        "decode": decode.label,
        "wins": answer == YES,
    }


def state_phase_verdict(names: str, error: str, warning: str, answer: str, label: str) -> str:
    """State in one sentence whether the named pair beats the best placement for both phases."""
    if warning:
        return UNDECIDED.format(f"{names} beat {label}", warning)
    names = f"{names[0].upper()}{names[1:]}"
    if error:
        return f"{names}: {error}."
    verb = {YES: "beat", WITHIN_NOISE: "equal, within noise,"}.get(answer, "do not beat")
    return f"{names} {verb} {label}, the best for both phases."


def choose_pair(
    problem: Problem, candidates: Sequence[Candidate]
) -> tuple[Candidate, Candidate] | None:
    """Choose the fastest pair that fits together; None if one placement is best for both phases."""
    held = [(one, problem.memory_bytes(one.assignment)) for one in candidates if one.measured]
    fitting = [
        (prefill, decode)
        for (prefill, prefill_bytes), (decode, decode_bytes) in product(held, held)
        if prefill is decode or not problem.memory_error(prefill_bytes + decode_bytes)
    ]
    prefill, decode = min(fitting, key=lambda pair: predict_ms(problem, *pair))
    return None if prefill is decode else (prefill, decode)


def predict_ms(problem: Problem, prefill: Candidate, decode: Candidate) -> float:
    """Predict the scenario's latency by measured phases, without the transfer of the state."""
    prefill_ms, token_ms = prefill.result.parts_ms["prefill_ms"], decode.result.parts_ms["token_ms"]
    n_tokens = problem.units.graph.n_inferences - 1.0
    return prefill_ms + n_tokens * token_ms
