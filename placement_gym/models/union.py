"""Several models as one: a union with prefixed names, which can be split again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placement_gym.base.errors import UserError, unknown_name
from placement_gym.base.files import safe_name
from placement_gym.models.members import KEY, Member, join_names, list_members
from placement_gym.models.stateful import is_stateful

if TYPE_CHECKING:
    import openvino as ov


def name_members(names: Sequence[str]) -> list[str]:
    """Distinct prefixes; a model that is there twice gets a number, as in ``"resnet_2"``."""
    unique_names: list[str] = []
    for plain in map(safe_name, names):
        copies = 1 + sum(name == plain or name.startswith(f"{plain}_") for name in unique_names)
        unique = plain if copies == 1 else f"{plain}_{copies}"
        while unique in unique_names:
            unique += "_"
        unique_names.append(unique)
    return unique_names


def check_names(values: Any, names: Sequence[str], argument: str) -> None:
    """Raise ``UserError`` if something is given for an input of no model of a union."""
    if values is not None and not isinstance(values, Mapping):
        raise UserError(f"{argument} maps names, as in 'MODEL/INPUT', not {values!r:.200}")
    for key in values or {}:
        model, separator, _ = str(key).partition("/")
        if not separator or model not in names:
            raise unknown_name(f"a model of {argument} (as in 'MODEL/INPUT')", model, list(names))


def join_models(models: Sequence[ov.Model], members: Sequence[Member]) -> ov.Model:
    """Join models into one that runs them side by side; they cannot be used any more.

    Nodes, inputs, outputs and states get the name of their model as a prefix.

    Raises:
        UserError: Some models keep state and others do not, or one is a union already.
    """
    import openvino as ov

    stateful = [is_stateful(model) for model in models]
    if any(stateful) and not all(stateful):
        with_state, without_state = (
            [part.name for part, keeps in zip(members, stateful, strict=True) if keeps is state]
            for state in (True, False)
        )
        raise UserError(
            f"{with_state} keep state, so that one run is a whole scenario, and {without_state} do "
            "not: place models with state together, and others together"
        )
    for model, member in zip(models, members, strict=True):
        if list_members(model):
            raise UserError(f"{member.name!r} is a union already: name its models instead")
        rename_all(model, lambda name, prefix=f"{member.name}/": f"{prefix}{name}")
    union = ov.Model(
        [result for model in models for result in model.get_results()],
        [sink for model in models for sink in model.get_sinks()],
        [parameter for model in models for parameter in model.get_parameters()],
        join_names(members),
    )
    union.set_rt_info(json.dumps(members), KEY)
    return union


def split_union(model: ov.Model) -> dict[str, ov.Model]:
    """The models of a union by name, with names as they were; the union is not changed."""
    import openvino as ov

    clone = model.clone()
    found = {}
    for member in list_members(model):
        prefix = f"{member.name}/"
        parts = (
            [node for node in nodes if node.get_friendly_name().startswith(prefix)]
            for nodes in (clone.get_results(), clone.get_sinks(), clone.get_parameters())
        )
        found[member.name] = ov.Model(*parts, member.name)
        rename_all(found[member.name], lambda name, prefix=prefix: name.removeprefix(prefix))
    return found


def rename_all(model: ov.Model, change: Any) -> None:
    """Change the names of nodes, tensors and states, in place."""
    for node in model.get_ordered_ops():
        node.set_friendly_name(change(node.get_friendly_name()))
        for port in node.outputs():
            if names := port.get_names():
                port.get_tensor().set_names({change(name) for name in names})
    for variable in model.get_variables():
        info = variable.info
        info.variable_id = change(info.variable_id)
        variable.update(info)
