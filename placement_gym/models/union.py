"""Split a union into its models, and rename their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placement_gym.models.members import list_members

if TYPE_CHECKING:
    import openvino as ov


def split_union(model: ov.Model) -> dict[str, ov.Model]:
    """Return the models of a union by name, with their original names; keep the union."""
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
