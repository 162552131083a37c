"""Joining of several models into a union with prefixed names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_gym.base import UserError, safe_name, unknown_name
from placement_gym.models.built_in import GENERATED, match_built_in
from placement_gym.models.inputs import SIZES, states_sizes
from placement_gym.models.own_inputs import list_mappings
from placement_gym.models.shapes import InputsArgument, Shapes
from placement_gym.models.stateful import is_stateful
from placement_gym.models.union import KEY, Member, join_names, list_members, rename_all

if TYPE_CHECKING:
    import openvino as ov

MAX_BUILT_GIB = 4.0
"""Maximum weights of a union's built-in models in GiB, as files of strangers may name them."""


def load_union(
    rated_models: Sequence[tuple[Any, int]],
    shapes: Shapes | None,
    inputs: InputsArgument | None,
    load_one: Callable[..., ov.Model],
) -> ov.Model:
    """Load several models by ``load_one(model, shapes, inputs)`` and join them."""
    for part, _ in rated_models:
        if isinstance(part, str) and (GENERATED.match(part) or part.endswith(".json")):
            raise UserError(
                f"{part!r:.200} is a graph without a model and cannot be joined: name models"
            )
    names = name_members([stem_of(part) for part, _ in rated_models])
    check_names(shapes, names, "shapes")
    if inputs is not None and not states_sizes(inputs):
        inputs = list_mappings(inputs)
        for mapping in inputs:
            check_names(mapping, names, "inputs")
    models, built_bytes = [], 0
    for (part, _), name in zip(rated_models, names, strict=True):
        models.append(load_one(part, values_of(shapes, name), inputs_of(inputs, name)))
        if isinstance(part, str) and match_built_in(part):
            nodes = models[-1].get_ops()
            built_bytes += sum(n.get_byte_size() for n in nodes if n.get_type_name() == "Constant")
        if built_bytes > MAX_BUILT_GIB * 2**30:
            raise UserError(
                f"{name!r} is one too many: built-in models of a union may have "
                f"{MAX_BUILT_GIB:g} GiB of weights; name fewer or smaller ones, or files"
            )
    rates = [rate for _, rate in rated_models]
    union = join_models(models, [*map(Member, names, rates)])
    # The name loads a union of built-in models again.
    named_members = [Member(stem_of(part), rate) for part, rate in rated_models]
    union.set_friendly_name(join_names(named_members))
    return union


def inputs_of(given: InputsArgument | None, name: str) -> InputsArgument | None:
    """Return the inputs of a model of a union, by their original names."""
    if given is None:
        return None
    if states_sizes(given):
        return {SIZES: values_of(given[SIZES], name)}
    return [values_of(mapping, name) for mapping in list_mappings(given)]


def values_of(values: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    """Return the values of a model of a union, by their original names."""
    prefix = f"{name}/"
    return {
        key.removeprefix(prefix): value
        for key, value in (values or {}).items()
        if key.startswith(prefix)
    }


def stem_of(model: str | Path | ov.Model) -> str:
    """Return a model's name, or that of its file without the suffix."""
    if not isinstance(model, (str, Path)):
        return str(model.get_friendly_name())
    return str(model) if match_built_in(model) else Path(model).stem


def name_members(names: Sequence[str]) -> list[str]:
    """Make distinct prefixes; a repeated name gets a number, as in ``"resnet_2"``."""
    unique_names: list[str] = []
    for plain in map(safe_name, names):
        copies = 1 + sum(name == plain or name.startswith(f"{plain}_") for name in unique_names)
        unique = plain if copies == 1 else f"{plain}_{copies}"
        while unique in unique_names:
            unique += "_"
        unique_names.append(unique)
    return unique_names


def check_names(values: Any, names: Sequence[str], argument: str) -> None:
    """Raise ``UserError`` if names of values do not begin with a model of the union."""
    if values is not None and not isinstance(values, Mapping):
        raise UserError(f"{argument} maps names, as in 'MODEL/INPUT', not {values!r:.200}")
    for key in values or {}:
        model, separator, _ = str(key).partition("/")
        if not separator or model not in names:
            raise unknown_name(f"a model of {argument} (as in 'MODEL/INPUT')", model, list(names))


def join_models(models: Sequence[ov.Model], members: Sequence[Member]) -> ov.Model:
    """Join models, which become unusable, and prefix all names with the model's."""
    import openvino as ov

    pairs = zip(members, models, strict=True)
    with_state = [member.name for member, model in pairs if is_stateful(model)]
    without_state = [member.name for member in members if member.name not in with_state]
    if with_state and without_state:
        raise UserError(
            f"{with_state} have state, so one run is a whole scenario, and {without_state} do not: "
            "place models with state together, and others together"
        )
    for model, member in zip(models, members, strict=True):
        if list_members(model):
            raise UserError(f"{member.name!r} is already a union: name its models instead")
        rename_all(model, lambda name, prefix=f"{member.name}/": f"{prefix}{name}")
    union = ov.Model(
        [result for model in models for result in model.get_results()],
        [sink for model in models for sink in model.get_sinks()],
        [parameter for model in models for parameter in model.get_parameters()],
        join_names(members),
    )
    union.set_rt_info(json.dumps(members), KEY)
    return union
