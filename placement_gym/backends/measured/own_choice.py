"""What OpenVINO places by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.problem import Problem

if TYPE_CHECKING:
    import openvino as ov


def operators(core: ov.Core, model: ov.Model, problem: Problem) -> dict[str, int]:
    """Device index by operator, as automatic HETERO would place it."""
    names = problem.device_names
    found = core.query_model(model, f"HETERO:{','.join(names)}")
    return {operator: names.index(device) for operator, device in found.items()}


def device(core: ov.Core, model: ov.Model, problem: Problem) -> dict[str, int]:
    """AUTO's single device for every operator."""
    names = problem.device_names
    properties = {
        "ENABLE_STARTUP_FALLBACK": False,
        "DEVICE_PROPERTIES": {d.name: d.compile_properties() for d in problem.devices},
    }
    compiled = core.compile_model(model, f"AUTO:{','.join(names)}", properties)
    chosen = compiled.get_property("EXECUTION_DEVICES")[0].strip("()")
    return dict.fromkeys(problem.units.names, names.index(chosen))
