"""Results as files hold them: rows, and what is read again of a comparison and of a report."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, FiniteFloat, RootModel, model_validator

from placement_gym.base.errors import UserError
from placement_gym.base.schemas.reading import MAX_BYTES, Fields, Name, parse_json

Count = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Positive = Annotated[FiniteFloat, Field(gt=0.0)] | None


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
    """A row of a study or of a comparison."""

    key: Name
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
    stopped: bool = False
    infeasible: Count | None
    repaired: Count | None
    costs_fingerprint: Name | None
    latency_ms: Positive
    latency_p90_ms: Positive
    greedy_latency_ms: Positive
    greedy_speedup: Positive
    speedup: Positive
    speedup_vs_best_single: Positive
    noise: Annotated[FiniteFloat, Field(ge=0.0)] | None
    n_submodels: int | None
    n_submodels_expected: int | None
    wall_s: FiniteFloat
    beats_best_single: Name | None
    curve: list[Annotated[list[FiniteFloat], Field(min_length=3)]]
    doubt: str
    placement: dict[str, str] | None
    start: str = ""
    error: str
    versions: dict[str, str]
    host: str
    git: str | None
    time: str
    problem: Annotated[Name, AfterValidator(check_problem)]
    score_on: dict[str, Any]
    scored_ms: Positive
    scored_speedup: Positive

    @model_validator(mode="after")
    def check_measured(self) -> RowFields:
        """Refuse a latency without what was measured, and over what it is a speed-up."""
        needed = ("placement", "speedup", "speedup_vs_best_single", "noise", "beats_best_single")
        absent = [name for name in needed if getattr(self, name) is None]
        if self.latency_ms is not None and absent:
            raise ValueError(f"it has a latency, but no {absent[0]}")
        return self


class RowKey(Fields):
    """The key of a row."""

    key: Name


class ComparisonFields(Fields):
    """Which comparison a folder holds."""

    env: Name
    model: Name
    devices: list[Name]
    rows: list[RowKey]


class ReferenceFields(Fields):
    """The proven optimum of a problem, or a bound."""

    optimum_ms: FiniteFloat | None
    bound_ms: FiniteFloat | None


class ReferencesFile(RootModel[dict[str, ReferenceFields]]):
    """By model, costs and problem."""
