"""Schemas of studies and agents, and safe parsing of YAML."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated, Any

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    model_validator,
)

from placement_gym.base import UserError, as_whole
from placement_gym.base.schemas.reading import Fields, Name, check_plain, shorten

MAX_RUNS = 100_000
"""Maximum runs of a study. Hand-tuned."""
MAX_BUDGET = 1_000_000_000
"""Maximum evaluations of a run. Hand-tuned."""
MAX_SEED = 2**32 - 1
"""Maximum seed of NumPy's legacy generator, which libraries of agents use."""
MAX_BITS = 64
"""Maximum bits of a whole number; Python does not print more than 4,300 digits."""
MAX_VALUES = 1_000_000
"""Maximum values of a YAML file; aliases of aliases expand to billions."""
PLACE = re.compile('in "<[^>"]*>", ')
"""PyYAML's name of a text in memory."""


def check_list(value: Any) -> Any:
    """Return a list if it has entries; else raise ``ValueError``, for schemas."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        example = f", as in [{value}]" if isinstance(value, str) and len(value) < 40 else ""
        raise ValueError(
            f"it must be a list with at least one entry{example}, not {shorten(value)}"
        )
    return list(value)


def check_seeds(value: Any) -> Any:
    """Return a number or list of seeds if it is one; else raise ``ValueError``, for schemas."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str) and value
    seeds, minimum = (value, 0) if is_list else ([value], 1)
    for seed in seeds:
        if not is_whole(seed) or not minimum <= seed <= MAX_SEED:
            raise ValueError(
                "they must be a number of seeds, as in 5 for 0 to 4, or a list of whole numbers, "
                f"not {shorten(seed)}"
            )
    return value


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


Items = Annotated[list[Any], BeforeValidator(check_list)]
PlainItems = Annotated[list[Any], BeforeValidator(check_list), AfterValidator(check_plain)]
Settings = Annotated[Mapping[str, Any], AfterValidator(check_plain)]
Seeds = Annotated[Any, AfterValidator(check_seeds)]


class AgentFields(Fields):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[Name, Field(min_length=1)]
    kwargs: Settings | None = None
    label: Name | None = None


class StudyFields(Fields):
    """Study; ``AgentFields`` check its agents."""

    model_config = ConfigDict(extra="forbid")

    env: Name
    models: Items
    agents: Items
    budget: Annotated[int, BeforeValidator(as_whole), Field(ge=1, le=MAX_BUDGET)]
    devices: PlainItems = [None]  # noqa: RUF012  pydantic copies defaults
    seeds: Seeds = 5
    env_kwargs: Settings = Field(default_factory=dict)
    score_on: Settings = Field(default_factory=dict)
    published: Mapping[Name, Mapping[Name, FiniteFloat]] = Field(default_factory=dict)
    roles: Settings = Field(default_factory=dict)
    about: Name = ""

    @model_validator(mode="after")
    def check_runs(self) -> StudyFields:
        n_seeds = self.seeds if is_whole(self.seeds) else len(self.seeds)
        n_runs = len(self.models) * len(self.agents) * len(self.devices) * n_seeds
        if n_runs > MAX_RUNS:
            raise ValueError(f"{n_runs} runs, more than {MAX_RUNS}: leave out models or seeds")
        return self


class CheckingLoader(yaml.SafeLoader):
    """Loader that refuses duplicate keys and huge numbers."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = set[str]()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in keys:
                line = key.start_mark.line + 1
                raise ValueError(f"duplicate key {key.value!r:.60} (line {line})")
            keys.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        value = int(super().construct_yaml_int(node))
        if value.bit_length() > MAX_BITS:
            line = node.start_mark.line + 1
            raise ValueError(f"a number of more than {MAX_BITS} bits (line {line})")
        return value


CheckingLoader.add_constructor("tag:yaml.org,2002:int", CheckingLoader.construct_yaml_int)


def count_values(node: yaml.Node | None, counts: dict[int, float]) -> float:
    """Count the values of a node with aliases expanded; infinite if it contains itself."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in counts:
        counts[id(node)] = float("inf")
        inner = (
            part for item in node.value for part in (item if isinstance(item, tuple) else [item])
        )
        counts[id(node)] = 1 + sum(count_values(part, counts) for part in inner)
    return counts[id(node)]


def parse_yaml(content: bytes) -> Any:
    """Parse a YAML document without tags, within bounds, or raise ``UserError`` with the line."""
    try:
        loader = CheckingLoader(content)
        node = loader.get_single_node()
        if count_values(node, {}) > MAX_VALUES:
            raise ValueError(f"its aliases make more than {MAX_VALUES} values")
        return None if node is None else loader.construct_document(node)
    except RecursionError as error:
        raise UserError("not valid YAML: it has too many levels") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # 2001-99-99 is a ValueError
        raise UserError(f"not valid YAML: {PLACE.sub('in ', str(error))}") from error
