"""Studies and agents as YAML files hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, FiniteFloat, model_validator

from placement_gym.schemas.reading import Fields, Name, check_plain

MAX_RUNS = 1_000_000
MAX_BUDGET = 1_000_000_000
MAX_SEED = 2**32 - 1

Plain = Annotated[Any, AfterValidator(check_plain)]
Settings = Annotated[Mapping[str, Any], AfterValidator(check_plain)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class AgentFields(Fields):
    """An agent with its options and what tables call it."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[Name, Field(min_length=1)]
    kwargs: Settings | None = None
    label: Name | None = None


class StudyFields(Fields):
    """A study; ``AgentFields`` are those of its agents."""

    model_config = ConfigDict(extra="forbid")

    env: Name
    models: Annotated[Sequence[Any], Field(min_length=1)]
    agents: Annotated[Sequence[Any], Field(min_length=1)]
    budget: Annotated[int, Field(ge=1, le=MAX_BUDGET)]
    devices: Annotated[Sequence[Plain], Field(min_length=1)] = (None,)
    seeds: (
        Annotated[int, Field(ge=1, le=MAX_RUNS)] | Annotated[Sequence[Seed], Field(min_length=1)]
    ) = 5
    env_kwargs: Settings = {}
    score_on: Settings = {}
    published: Mapping[Name, Mapping[Name, FiniteFloat]] = {}
    about: Name = ""

    @model_validator(mode="after")
    def check_runs(self) -> StudyFields:
        """Refuse more runs than anyone can wait for."""
        n_seeds = self.seeds if isinstance(self.seeds, int) else len(self.seeds)
        n_runs = len(self.models) * len(self.agents) * len(self.devices) * n_seeds
        if n_runs > MAX_RUNS:
            raise ValueError(f"models, devices, agents and seeds make {n_runs} runs: at most {MAX_RUNS}")
        return self
