"""Constraints that a user puts on placements, which become part of the problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.base import BoolArray, UserError, check_choice, join_words, read_bytes, suggest
from placement_gym.base.schemas import ConstraintFields, check, parse_json, parse_yaml, refuse_file
from placement_gym.graph import OpGraph
from placement_gym.problem.problem import Problem

MAX_FILE_BYTES = 2**22
"""Largest constraints file. Chosen because a rule for every operator of a large model fits."""

TYPE, LAYER = "type:", "layer:"
INPUTS, OUTPUTS = "inputs", "outputs"
Rules = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Constraints:
    """Rules for placements beyond memory and support.

    A rule is an operator's name, a pattern of names (``"layer0/*"``), ``"type:Softmax"``, or
    ``"layer:encoder/3"`` for names that begin with these parts. Names of nodes folded into an
    operator match, too. A unit obeys the rules of all its operators.

    Attributes:
        keep_on: Device -> rules of operators that run only there.
        keep_off: Device -> rules of operators that never run there.
        inputs: Device of all operators that read an input of the model; empty for any.
        outputs: Device of all operators that compute an output of the model; empty for any.
        max_submodels: Largest number of submodels of a placement; None for any number.
    """

    keep_on: Rules = field(default_factory=dict)
    keep_off: Rules = field(default_factory=dict)
    inputs: str = ""
    outputs: str = ""
    max_submodels: int | None = None

    @classmethod
    def parse(cls, given: Any) -> Constraints:
        """Read constraints from a mapping of their fields, a YAML or JSON file, or None.

        Raises:
            FileError: The file cannot be read.
            UserError: A field is unknown or invalid.
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, (str, Path)):
            content = read_bytes(given, MAX_FILE_BYTES)
            # JSON is read in milliseconds, the same YAML in seconds.
            parse = parse_json if Path(given).suffix == ".json" else parse_yaml
            values = None
            try:
                values = parse(content)
                return cls.parse_fields(values)
            except UserError as error:
                raise refuse_file(given, "a file of constraints", values, error) from error
        return cls.parse_fields(given)

    @classmethod
    def parse_fields(cls, values: Any) -> Constraints:
        """Read constraints from a mapping of their fields, or None, as of an empty file."""
        fields = check(ConstraintFields, {} if values is None else values)
        return cls(**fields.model_dump())

    def to_json(self) -> dict[str, Any]:
        """The fields that constrain something."""
        return {name: value for name, value in vars(self).items() if value}

    def apply(self, problem: Problem) -> Problem:
        """Return the problem with only those devices of units that the rules allow.

        Raises:
            UserError: A device is unknown, nothing matches a rule, or a unit has no device left.
        """
        if not self.to_json():
            return problem
        allowed = np.ones_like(problem.supported)
        for _, device, keep, units in self.bind(problem):
            columns = np.arange(len(problem.devices))
            allowed[np.ix_(units, columns != device if keep else columns == device)] = False
        supported = problem.supported & allowed
        stranded = np.flatnonzero(~supported.any(axis=1))
        if len(stranded):
            raise self.no_device(problem, int(stranded[0]))
        # References and profiles ignore constraints, by `capable`.
        return replace(
            problem,
            supported=supported,
            capable=problem.supported,
            max_submodels=self.max_submodels,
        )

    def no_device(self, problem: Problem, unit: int) -> UserError:
        rules = [text for text, _, _, units in self.bind(problem) if units[unit]]
        device_names = [problem.device_names[d] for d in np.flatnonzero(problem.supported[unit])]
        return UserError(
            f"constraints leave unit {problem.units.names[unit]!r} no device: {join_words(rules)}, "
            f"and it runs on {join_words(device_names)}. Relax a rule, add a device, or pass a "
            "finer granularity"
        )

    def bind(self, problem: Problem) -> Iterator[tuple[str, int, bool, BoolArray]]:
        """Yield each rule's text and device, whether units stay there, and an (n_units,) mask."""
        for name, by_device in (("keep_on", self.keep_on), ("keep_off", self.keep_off)):
            for device, rules in by_device.items():
                index = find_device(problem, device, name)
                for rule in rules:
                    text = f"{name} {device}: {rule!r:.80}"
                    units = find_units(problem, match_rule(problem.units.graph, rule, text))
                    yield text, index, name == "keep_on", units
        graph = problem.units.graph
        for name, device, operators in (
            (INPUTS, self.inputs, [reader for readers in graph.inputs for reader in readers]),
            (OUTPUTS, self.outputs, output_operators(graph)),
        ):
            if device:
                mask = np.isin(np.arange(len(graph)), operators)
                index = find_device(problem, device, name)
                yield f"{name}: {device!r}", index, True, find_units(problem, mask)


def find_device(problem: Problem, name: str, key: str) -> int:
    check_choice(f"a device of constraint {key}", name, problem.device_names)
    return problem.device_names.index(name)


def find_units(problem: Problem, operators: BoolArray) -> BoolArray:
    """(n_units,) bool, whether an (n_operators,) mask has any operator of the unit."""
    n_bound = np.bincount(problem.units.of_operator, operators, problem.n_units)
    return n_bound > 0


def output_operators(graph: OpGraph) -> list[int]:
    """The operators that compute outputs of the model; if unknown, those without readers."""
    computed = ~graph.follows
    return list(graph.outputs) or np.flatnonzero((graph.out_degree() == 0) & computed).tolist()


def match_rule(graph: OpGraph, rule: str, text: str) -> BoolArray:
    """(n_operators,) bool, whether a rule matches; a rule without matches raises ``UserError``."""
    # Members also match: users copy names from viewers, which show folded nodes.
    names = graph.members
    if rule.startswith(TYPE):
        names = tuple((kind,) for kind in graph.types)
        matches = [fnmatchcase(kind, rule.removeprefix(TYPE)) for kind in graph.types]
    elif rule.startswith(LAYER):
        layer = rule.removeprefix(LAYER)
        parts = (f"{layer}/", f"{layer}.")
        matches = [any(n == layer or n.startswith(parts) for n in group) for group in names]
    else:
        matches = [
            any(name == rule or fnmatchcase(name, rule) for name in group) for group in names
        ]
    # A rule that matches nothing is misspelt.
    if not any(matches):
        node_names = dict.fromkeys(name for group in names for name in group)
        hint = suggest(rule.rpartition(":")[2], node_names)
        if graph.models and not rule.startswith(TYPE):
            prefixes = ", ".join(f"{member.name}/" for member in graph.models)
            hint = f"{hint}; names begin with that of their model: {prefixes}"
        raise UserError(f"nothing in the model matches {text}{hint}")
    return np.array(matches, dtype=np.bool_)
