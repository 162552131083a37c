"""Unions of several models, with the rates at which they run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from placement_gym.base import UserError, is_path

if TYPE_CHECKING:
    import openvino as ov

KEY = ["placement_gym", "models"]
"""Path of names and rates, as JSON, in the runtime info of a union."""
RATED = re.compile(r"(?P<model>.+):(?P<rate>[^:/\\]*)")
RATE = re.compile(r"[1-9]\d{0,2}")


class Member(NamedTuple):
    """Model of a union, with its runs in a round."""

    name: str
    rate: int = 1


def parse_rate(model: Any) -> tuple[Any, int]:
    """Split ``"resnet:2"`` into the model and its rate, by default 1, or raise ``UserError``."""
    is_name = isinstance(model, str) and not is_path(model)
    match = RATED.fullmatch(model) if is_name else None
    if match is None:
        return model, 1
    if not RATE.fullmatch(match["rate"]):
        raise UserError(
            f"{model!r:.200}: a rate is a whole number from 1 to 999, as in 'resnet:2' for two "
            "inferences for each one of models without a rate"
        )
    return match["model"], int(match["rate"])


def join_names(members: Iterable[Member]) -> str:
    """Return the name of a union, as in ``"resnet+bert-8:2"``."""
    return "+".join(name if rate == 1 else f"{name}:{rate}" for name, rate in members)


def list_members(model: ov.Model) -> tuple[Member, ...]:
    """List the models of a union; empty for other models."""
    if not model.has_rt_info(KEY):
        return ()
    return tuple(Member(*pair) for pair in json.loads(model.get_rt_info(KEY).astype(str)))


def split_union(model: ov.Model) -> dict[str, ov.Model]:
    """Return copies of a union's models, by name and with their original names."""
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
