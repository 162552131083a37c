# White-box tests of deployment
"""The units that plans are made of: fine enough that there is something to place."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import openvino as ov
import pytest
from foreign_models import make_chain
from openvino import opset13 as ops

from placement_gym.backends.measured import build_measured_backend
from placement_gym.base import UserError
from placement_gym.deployment import profiling
from placement_gym.deployment.profiling import build_divisible_backend
from placement_gym.models import ModelSpec


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inspect models here: a process for each takes seconds."""
    here = partial(build_measured_backend, isolate=False)
    monkeypatch.setattr(profiling, "build_measured_backend", here)


def test_a_chain_is_split_by_what_the_device_runs_as_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    backend, notes = build_divisible_backend(ModelSpec(make_chain(), "fused"), "cpu-testbed")
    assert backend.problem.units.granularity == "fused"
    assert notes == [f"{backend.problem.n_units} units to place (granularity 'fused')"]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1] == f"chain: {notes[0]}"


def test_a_models_name_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    model = make_chain()
    model.set_friendly_name("\x1b[2Jchain\r")
    build_divisible_backend(ModelSpec(model, "fused"), "cpu-testbed")
    assert capsys.readouterr().err.splitlines()[-1].startswith("\\x1b[2Jchain: ")


@pytest.mark.parametrize(
    ("model", "asked", "used", "said"),
    [
        (make_chain(), "colocated", "fused", "'colocated' .* 1 unit.*'fused'"),
        (make_chain(2), "fused", "op", "'op'"),
        ("tiny", "colocated", "colocated", "^7 units to place"),
    ],
    ids=["one unit", "few primitives", "enough units"],
)
def test_too_few_units_give_way_to_a_finer_granularity(
    model: Any, asked: str, used: str, said: str
) -> None:
    backend, notes = build_divisible_backend(ModelSpec(model, asked), "cpu-testbed", quiet=True)
    assert backend.problem.units.granularity == used
    assert backend.problem.n_units >= 4
    assert re.search(said, notes[0])
    assert (len(notes) == 1) == (asked == used)


def test_a_model_of_one_operator_is_refused() -> None:
    values = ops.parameter((1, 8), np.float32)
    model = ov.Model([ops.result(ops.relu(values))], [values], "single")
    with pytest.raises(UserError, match=r"'single' has 1 unit even with granularity 'op'"):
        build_divisible_backend(ModelSpec(model, "fused"), "cpu-testbed", quiet=True)
