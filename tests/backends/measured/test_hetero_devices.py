# White-box tests of backends.measured
"""The settings of a device hold inside a split model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openvino as ov
import pytest
from fakes import assignment
from foreign_models import make_chain
from numpy.typing import NDArray
from testbed import (
    known_model,
    make,
    needs_bf16,
    needs_two_cores,
    outputs,
    placement,
    worst_relative,
)

import placement_gym
from placement_gym.backends.measured import HeteroPartition
from placement_gym.backends.measured.hetero import alias_device, check_cards
from placement_gym.base import CompileError
from placement_gym.hardware import TESTBED, DeviceSpec
from placement_gym.models import load_model
from placement_gym.problem import Placement
from placement_gym.workloads import sample_inputs


@cache
def wide_chain() -> tuple[ov.Model, list[NDArray[Any]]]:
    """A model with enough work for two threads, and its outputs."""
    model = load_model(make_chain(n_layers=4, channels=64, size=56))
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return model, outputs(compiled, model)


def compile_halves(devices: tuple[DeviceSpec, ...], split: str) -> ov.CompiledModel:
    """The wide chain, its first half on the first device and its second half on the other."""
    model = wide_chain()[0]
    problem = make(model, devices, granularity="op").problem
    placed = np.arange(problem.n_units) >= problem.n_units // 2
    compiled = placement_gym.compile_model(
        ov.Core(), model, Placement.from_assignment(problem, assignment(placed)), split=split
    )
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == 2
    return compiled


@pytest.mark.parametrize(("second", "refused"), [("GPU.1", False), ("GPU.0", True)])
def test_submodels_that_report_another_gpu_are_an_error(second: str, refused: bool) -> None:
    devices = (DeviceSpec("GPU"), alias_device(DeviceSpec("GPU.1"), 1))
    names = [device.name for device in devices]
    partition = HeteroPartition(
        np.arange(2), tuple(names), np.arange(2), dict(zip(names, devices, strict=True))
    )
    reported = {
        name: {"EXECUTION_DEVICES": [one]}
        for name, one in zip(names, ["GPU.0", second], strict=True)
    }
    compiled = SimpleNamespace(get_property={"DEVICE_PROPERTIES": reported}.get)
    expected = pytest.raises(CompileError, match=r"on GPU_ALIAS1\.1 run on GPU\.0, though GPU\.1")
    with expected if refused else nullcontext():
        check_cards(compiled, partition.devices)


def thread_time_ns() -> dict[str, int]:
    """Processor time of each thread of this process so far."""
    return {
        task.name: int((task / "schedstat").read_text().split()[0])
        for task in Path("/proc/self/task").iterdir()
    }


def working_threads(run: Callable[[], object], share: float) -> int:
    """Threads with more than a share of the work, which other processes hardly change."""
    before = thread_time_ns()
    for _ in range(20):
        run()
    spent = [after - before.get(task, 0) for task, after in thread_time_ns().items()]
    return sum(time > share * sum(spent) for time in spent)


@needs_two_cores
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs thread times")
@pytest.mark.parametrize("split", ["alias", "hetero"])
def test_a_thread_limit_is_obeyed_inside_a_split_model(split: str) -> None:
    run = {}
    for threads in (1, 2):
        devices = (
            DeviceSpec("CPU", threads=threads),
            DeviceSpec("CPU_FAST", plugin="CPU", threads=threads),
        )
        request = compile_halves(devices, split).create_infer_request()
        request.infer(dict(enumerate(sample_inputs(wide_chain()[0]))))
        run[threads] = request.infer
    assert working_threads(run[1], share=0.1) == 1
    # On a busy machine the second thread may come too late to find any work.
    assert any(working_threads(run[2], share=0.01) > 1 for _ in range(10))


@needs_bf16
@pytest.mark.parametrize("split", ["alias", "hetero"])
def test_a_precision_is_obeyed_inside_a_split_model(split: str) -> None:
    error = {}
    for precision in ("f32", "bf16"):
        devices = (
            DeviceSpec("CPU", threads=1),
            DeviceSpec("CPU_FAST", plugin="CPU", threads=1, precision=precision),
        )
        model, expected = wide_chain()
        error[precision] = worst_relative(outputs(compile_halves(devices, split), model), expected)
    assert error["f32"] < 1e-4 < error["bf16"]


def test_every_name_of_a_device_carries_its_settings() -> None:
    devices = (DeviceSpec("CPU", threads=1), DeviceSpec("CPU_FAST", plugin="CPU", threads=2))
    compiled = placement_gym.compile_model(
        ov.Core(), known_model("tiny"), placement("tiny", [0, 1, 0, 1, 1, 0, 1], devices), "alias"
    )
    settings = compiled.get_property("DEVICE_PROPERTIES")
    assert set(settings) > {"CPU", "CPU_FAST"}
    for name, properties in settings.items():
        assert properties["INFERENCE_NUM_THREADS"] == (2 if name.startswith("CPU_FAST") else 1)
        assert properties["INFERENCE_PRECISION_HINT"].to_string() == "f32"


def test_an_alias_never_takes_the_name_of_another_device() -> None:
    slow = TESTBED[0]
    plain = alias_device(slow, 1)
    beside_its_namesake = alias_device(slow, 1, {slow.name, plain.name})
    assert len({slow.name, plain.name, beside_its_namesake.name}) == 3
    assert beside_its_namesake.compile_properties() == slow.compile_properties()


def test_device_with_a_plugin_registered_once_keeps_its_name() -> None:
    assert alias_device(DeviceSpec("NPU"), 1) == DeviceSpec("NPU")
