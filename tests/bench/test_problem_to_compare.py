# White-box tests of bench
"""The problem that a comparison opens with leaves a split that can win."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import openvino as ov
import pytest
from foreign_models import save_chain_ir

from placement_gym.bench.comparing import choose_devices, open_env_to_split
from placement_gym.bench.run import BenchEnvs
from placement_gym.hardware import PRESETS

MEASURED, SIMULATED = "DevicePlacement-v0", "DevicePlacementSim-v0"


def pretend(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the machine have these devices."""

    class Core:
        available_devices = names

    monkeypatch.setattr(ov, "Core", Core)


def test_one_device_is_split_with_a_too_small_faster_part(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "CPU")
    devices, (why,) = choose_devices(MEASURED, None)
    slow, fast = PRESETS[devices]
    assert fast.weight_share == 0.5
    assert slow.weight_share is None
    assert "one device, CPU" in why
    assert "would always win alone" in why


@pytest.mark.parametrize(
    ("env", "devices", "machine"),
    [
        (MEASURED, None, ("CPU", "GPU")),
        (MEASURED, "cpu-testbed", ("CPU",)),
        (SIMULATED, None, ("CPU",)),
    ],
)
def test_several_or_named_devices_are_left_alone(
    env: str, devices: Any, machine: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, *machine)
    assert choose_devices(env, devices) == (devices, [])


def test_units_become_finer_before_rules_are_applied_to_them(tmp_path: Path) -> None:
    kwargs = {"model": str(save_chain_ir(tmp_path / "chain.xml")), "devices": ["CPU", "GPU"]}
    with BenchEnvs() as envs:
        free, _, notes = open_env_to_split(envs, SIMULATED, kwargs)
        first, *_, last = free.base.problem.units.names
        constraints = {"keep_on": {"CPU": [first], "GPU": [last]}}
        bound, used, said = open_env_to_split(
            envs, SIMULATED, {**kwargs, "constraints": constraints}
        )
        assert bound.base.problem.n_units == free.base.problem.n_units >= 4
    assert used["constraints"] == constraints
    assert said == notes
    assert re.search("default .* 1 unit.*'fused'", *notes)


def test_a_problem_of_one_device_comes_with_a_note() -> None:
    with BenchEnvs() as envs:
        *_, notes = open_env_to_split(envs, SIMULATED, {"model": "tiny", "devices": ["CPU"]})
    assert re.search("CPU .*only.*two or more.*CPU,GPU", *notes)
