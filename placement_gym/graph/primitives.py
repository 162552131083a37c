"""Which operators a device executes together as one primitive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import openvino as ov


def executed_primitives(
    core: ov.Core, model: ov.Model, device: str, properties: dict[str, Any]
) -> dict[str, str]:
    """Friendly name of each IR node that survives compilation -> name of its primitive.

    Args:
        core: Where ``device`` is registered.
        model: Any model that the device supports.
        device: An OpenVINO device name; its fusions are a proxy for other kinds of device.
        properties: Compile properties, as precision changes what is fused.
    """
    members = members_of_primitives(core.compile_model(model, device, properties))
    return {name: primitive for primitive, names in members.items() for name in names}


def members_of_primitives(compiled: ov.CompiledModel) -> dict[str, list[str]]:
    """Name of each primitive -> friendly names of the IR nodes that it executes."""
    members: dict[str, list[str]] = {}
    for node in compiled.get_runtime_model().get_ordered_ops():
        info = node.get_rt_info()
        if "originalLayersNames" in info:
            names = info["originalLayersNames"].astype(str).split(",")
            members[node.get_friendly_name()] = [name for name in names if name]
    return members
