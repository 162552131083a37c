"""A row that is of no study of the reader's names nothing outside the package, and ends."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies import read_rows

from placement_gym.base.errors import UserError
from placement_gym.bench.study.replay_process import IsolatedReplays
from placement_gym.bench.study.row_limits import check_row_task
from placement_gym.bench.study.task import Task
from placement_gym.envs.measured_env import MeasuredEnv
from placement_gym.envs.simulated_env import SimulatedEnv

TASK = Task("heft", {}, "DevicePlacementSim-v0", {}, "tiny", "cpu+dgpu", 0, 5)


@pytest.mark.parametrize(
    "change",
    [
        *({"model": "/tmp/$TOKEN.xml"}, {"model": "/dev/zero"}, {"model": "../model.onnx"}),
        *({"model": "family-attention-120-seed7/../x.json"}, {"model": "+".join(["tiny"] * 9)}),
        *({"devices": "/etc/devices.json"}, {"env_kwargs": {"costs": "/dev/zero"}}),
        *({"env_kwargs": {"constraints": "/etc/passwd"}}, {"env_kwargs": {"repeats": 10**9}}),
        *({"env_kwargs": {"timeout_s": 1e9}}, {"score_on": {"model": "/dev/zero"}}),
    ],
)
def test_a_row_may_name_no_file_and_no_endless_work(change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="which a row may not name without a study"):
        check_row_task(replace(TASK, **change))


@pytest.mark.parametrize(
    "change",
    [
        *({}, {"model": "bert-8"}, {"model": "resnet+bert-8:2"}, {"devices": None}),
        {"model": "family-attention-120-seed7"},
        *({"model": "synthetic-layered-40"}, {"devices": ["CPU", {"name": "GPU"}]}),
        {"env_kwargs": {"costs": "profiled", "repeats": 50, "constraints": {"max_submodels": 2}}},
    ],
)
def test_a_row_may_name_what_the_package_has(change: dict[str, Any]) -> None:
    check_row_task(replace(TASK, **change))


def test_every_argument_that_may_be_a_file_is_checked() -> None:
    parameters = [
        one
        for env in (SimulatedEnv, MeasuredEnv)
        for one in inspect.signature(env).parameters.values()
    ]
    paths = {one.name for one in parameters if "Path" in str(one.annotation)}
    anything = {one.name for one in parameters if str(one.annotation) in ("Any", "DevicesArgument")}
    assert paths | anything == {"model", "costs", "devices", "constraints"}


def test_a_replay_that_does_not_end_is_ended(folder: Path) -> None:
    row = next(row for row in read_rows(folder) if row["agent"] == "annealing")
    isolated = IsolatedReplays(60.0)
    try:
        assert isolated.check(row) == ""
        isolated.timeout_s = 0.2
        large = '["DevicePlacementSim-v0", {}, "synthetic-layered-900000", "cpu+dgpu"]'
        assert "takes more than 0.2 s" in isolated.check(row | {"problem": large})
    finally:
        isolated.close()
