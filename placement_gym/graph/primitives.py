"""Which operators a device executes together as one primitive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import openvino as ov


def query_primitives(
    core: ov.Core, model: ov.Model, device: str, properties: dict[str, Any]
) -> dict[str, str]:
    """Compile a model; map each surviving IR node's friendly name to the name of its primitive.

    Args:
        core: The core in which ``device`` is registered.
        model: Any model that the device supports.
        device: OpenVINO device name; its fusions are a proxy for those of other devices.
        properties: Compile properties, as precision changes what is fused.
    """
    members = members_of_primitives(core.compile_model(model, device, properties))
    return {name: primitive for primitive, names in members.items() for name in names}


def members_of_primitives(compiled: ov.CompiledModel) -> dict[str, list[str]]:
    """Map the name of each primitive to the friendly names of the IR nodes that it executes."""
    members: dict[str, list[str]] = {}
    for node in compiled.get_runtime_model().get_ordered_ops():
        info = node.get_rt_info()
        if "originalLayersNames" in info:
            names = info["originalLayersNames"].astype(str).split(",")
            members[node.get_friendly_name()] = [name for name in names if name]
    return members
