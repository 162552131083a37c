"""Placement that OpenVINO chooses by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.problem.problem import Problem

if TYPE_CHECKING:
    import openvino as ov


def place_by_hetero(core: ov.Core, model: ov.Model, problem: Problem) -> dict[str, int]:
    """Operator name -> device index, as automatic HETERO would place it."""
    names = problem.device_names
    found = core.query_model(model, f"HETERO:{','.join(names)}")
    return {operator: names.index(device) for operator, device in found.items()}


def place_by_auto(core: ov.Core, model: ov.Model, problem: Problem) -> dict[str, int]:
    """Operator name -> index of the one device that AUTO chooses."""
    names = problem.device_names
    properties = {
        "ENABLE_STARTUP_FALLBACK": False,
        "DEVICE_PROPERTIES": {d.name: d.compile_properties() for d in problem.devices},
    }
    compiled = core.compile_model(model, f"AUTO:{','.join(names)}", properties)
    chosen = compiled.get_property("EXECUTION_DEVICES")[0].strip("()")
    return dict.fromkeys(problem.units.names, names.index(chosen))
