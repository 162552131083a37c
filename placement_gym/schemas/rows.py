"""Result rows as a file holds them, those of 0.1.0 and of later versions included."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, FiniteFloat

from placement_gym.errors import UserError
from placement_gym.schemas.reading import MAX_BYTES, Fields, Name, parse_json

Count = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Number = FiniteFloat | None


def check_problem(text: str) -> str:
    """Return the text of a problem: environment, its arguments, model and devices as JSON.

    Raises:
        ValueError: It has another form; for schemas.
    """
    try:
        parts = parse_json(text)
    except UserError as error:
        raise ValueError(str(error)) from error
    if not isinstance(parts, list) or len(parts) != 4:
        raise ValueError("it must be a list of environment, arguments, model and devices")
    env, env_kwargs, model, _ = parts
    if not (isinstance(env, str) and isinstance(env_kwargs, dict) and isinstance(model, str)):
        raise ValueError("environment and model must be text, arguments an object")
    return text


class RowFields(Fields):
    """What every row has."""

    agent: Name
    label: Name
    kwargs: dict[str, Any]
    env: Name
    env_kwargs: dict[str, Any]
    model: Name
    model_fingerprint: Name
    devices: list[dict[str, Any]]
    seed: int
    budget: Count
    evaluations: Count
    costs_fingerprint: Name | None
    latency_ms: Number
    latency_p90_ms: Number
    greedy_latency_ms: Number
    greedy_speedup: Number
    speedup: Number
    speedup_vs_best_single: Number
    noise: Number
    n_submodels: int | None
    n_submodels_expected: int | None
    wall_s: FiniteFloat
    beats_best_single: Name | None
    curve: list[Annotated[list[Number], Field(min_length=3)]]
    placement: dict[str, str] | None
    error: str
    versions: dict[str, str]
    host: str
    git: str | None
    time: str


class RunFields(RowFields):
    """What a row of a study or of a comparison has besides."""

    key: Name
    problem: Annotated[Name, AfterValidator(check_problem)]
    score_on: dict[str, Any]
    scored_ms: Number
    scored_speedup: Number
