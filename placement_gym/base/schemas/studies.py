"""Studies and agents as YAML files hold them."""

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
"""Runs of a study. Hand-tuned."""
MAX_BUDGET = 1_000_000_000
"""Evaluations of a run. Hand-tuned."""
MAX_SEED = 2**32 - 1
"""Largest seed of NumPy's legacy generator, which libraries of agents use."""
MAX_BITS = 64
"""Bits of a whole number: Python refuses to print more than 4,300 digits."""
MAX_VALUES = 1_000_000
"""Values of a YAML file: aliases of aliases expand a few lines to billions."""
PLACE = re.compile('in "<[^>"]*>", ')
"""The YAML library's name of a text in memory."""


def check_list(value: Any) -> Any:
    """Return a list with entries.

    Raises:
        ValueError: It is not one; for schemas.
    """
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        example = f", as in [{value}]" if isinstance(value, str) and len(value) < 40 else ""
        raise ValueError(
            f"it must be a list with at least one entry{example}, not {shorten(value)}"
        )
    return list(value)


def check_seeds(value: Any) -> Any:
    """Return a number of seeds, or a list of them.

    Raises:
        ValueError: It is neither; for schemas.
    """
    seeds, minimum = ([value], 1) if is_whole(value) else (value, 0)
    is_list = isinstance(seeds, Sequence) and not isinstance(seeds, str) and seeds
    fits = [is_whole(seed) and minimum <= seed <= MAX_SEED for seed in (seeds if is_list else ())]
    if not all(fits) or not is_list:
        wrong = seeds[fits.index(False)] if is_list else value
        raise ValueError(
            "they must be a number of seeds, as in 5 for 0 to 4, or a list of whole numbers, not "
            f"{shorten(wrong)}"
        )
    return value


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer, and not True or False."""
    return isinstance(value, int) and not isinstance(value, bool)


Items = Annotated[list[Any], BeforeValidator(check_list)]
PlainItems = Annotated[list[Any], BeforeValidator(check_list), AfterValidator(check_plain)]
Settings = Annotated[Mapping[str, Any], AfterValidator(check_plain)]
Seeds = Annotated[Any, AfterValidator(check_seeds)]


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
        """Refuse more runs than anyone can wait for."""
        n_seeds = self.seeds if is_whole(self.seeds) else len(self.seeds)
        n_runs = len(self.models) * len(self.agents) * len(self.devices) * n_seeds
        if n_runs > MAX_RUNS:
            raise ValueError(f"{n_runs} runs, more than {MAX_RUNS}: leave out models or seeds")
        return self


class CheckingLoader(yaml.SafeLoader):
    """Refuses a duplicate key, of which YAML would silently take the last, and huge numbers."""

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
    """Count the values below a node with its aliases replaced; infinite if it contains itself."""
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
    """Plain values from one YAML document without tags.

    Raises:
        UserError: It is not valid YAML, and the message has the line; or it is too deep, or too
            large once its aliases are replaced.
    """
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
