# White-box tests of backends.measured
"""What devices support, on a machine with a GPU and an NPU that is made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
import pytest

from placement_gym.backends.measured import find_supported
from placement_gym.backends.measured.inspector import inspect
from placement_gym.graph import extract, group
from placement_gym.hardware import TESTBED, resolve_devices
from placement_gym.models import load_model
from placement_gym.problem import Problem

REFUSED = {"CPU": set(), "GPU": {"Softmax"}, "NPU": {"Softmax", "MaxPool", "Add"}}
"""Types of operators that each device does not run."""
MEMORY = {"GPU": 8 << 30, "NPU": 4 << 30}


class IntelMachine:
    """An ``ov.Core`` with a CPU, an integrated GPU and an NPU."""

    available_devices = tuple(REFUSED)

    def query_model(self, model: ov.Model, device: str) -> dict[str, str]:
        return {
            node.get_friendly_name(): device
            for node in model.get_ops()
            if node.get_type_name() not in REFUSED[device]
        }

    def get_property(self, device: str, key: str) -> Any:
        own = f"{device}_DEVICE_TOTAL_MEM_SIZE"
        if key == "SUPPORTED_PROPERTIES":
            return [own] if device in MEMORY else []
        assert key == own
        return MEMORY[device]


def intel_problem(
    monkeypatch: pytest.MonkeyPatch, devices: str | None = None, granularity: str = "op"
) -> Problem:
    monkeypatch.setattr(ov, "Core", IntelMachine)
    model = load_model("tiny")
    specs = resolve_devices(devices, "measured", ov.Core())
    units = group(extract(model), granularity)
    return Problem(units, specs, find_supported(units, inspect(model, specs).operators))


def test_preset_of_such_a_machine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = intel_problem(monkeypatch, "cpu+igpu+npu").devices
    assert [(device.name, device.roofline) for device in devices] == [
        ("CPU", ""), ("GPU", "iGPU"), ("NPU", ""),
    ]  # fmt: skip


def test_units_go_only_where_query_model_says_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = intel_problem(monkeypatch)
    refused = {
        name: {
            kind
            for kind, runs in zip(problem.units.quotient.types, column.tolist(), strict=True)
            if not runs
        }
        for name, column in zip(problem.device_names, problem.supported.T, strict=True)
    }
    types = set(problem.units.quotient.types)
    assert refused == {name: kinds & types for name, kinds in REFUSED.items()}
    assert refused["NPU"]
    assert problem.runs_all.tolist()[0]
    assert problem.reference_device == 0


def test_unit_with_an_unsupported_operator_does_not_run_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = intel_problem(monkeypatch, granularity="colocated")
    graph = problem.units.graph
    for unit in range(problem.n_units):
        kinds = {graph.types[i] for i in np.flatnonzero(problem.units.of_operator == unit)}
        assert problem.supported[unit, 2] == (not kinds & REFUSED["NPU"])


def test_devices_of_one_plugin_are_asked_once_what_they_support(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    class WatchedCore(ov.Core):
        def query_model(self, model: Any, device_name: str, *rest: Any) -> dict[str, str]:
            asked.append(device_name)
            found: dict[str, str] = super().query_model(model, device_name, *rest)
            return found

    monkeypatch.setattr(ov, "Core", WatchedCore)
    first, second = inspect(load_model("tiny"), TESTBED).operators
    assert asked == ["CPU"]
    assert first
    assert first == second
