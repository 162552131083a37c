# White-box tests of backends.measured, hardware
"""Names, limits and properties of GPUs, as OpenVINO's own plugin takes them."""

from __future__ import annotations

import openvino as ov
import pytest
from gpu_models import make_problem, make_small

from placement_gym.backends.measured.hetero import place_by_auto, place_by_hetero
from placement_gym.hardware import DeviceSpec, resolve_devices
from placement_gym.hardware.properties import PROPERTIES, list_taken

pytestmark = pytest.mark.gpu_plugin

VALUES = {
    "EXECUTION_MODE_HINT": "ACCURACY",
    "KV_CACHE_PRECISION": "f16",
    "OFFLOAD_RATIO": 100,
    "PERFORMANCE_HINT": "LATENCY",
    **dict.fromkeys(
        ("GPU_HOST_TASK_PRIORITY", "GPU_QUEUE_PRIORITY", "GPU_QUEUE_THROTTLE", "MODEL_PRIORITY"),
        "LOW",
    ),
}
"""Values of properties; others take 1."""
NOT_HERE = {"GPU_ENABLE_LARGE_ALLOCATIONS", "ENABLE_CPU_RESERVATION"}
"""The runtime for processors has no such allocations, and would reserve its own cores."""


@pytest.mark.parametrize(("count", "names"), [("1", "GPU,GPU.0"), ("2", "GPU,GPU.0,GPU.1")])
def test_openvino_takes_every_name_that_we_do(
    count: str, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_LAYER_COUNT", count)
    core = ov.Core()
    for name in names.split(","):
        devices = resolve_devices([name, "CPU"], "measured", core)
        model, problem = make_problem(core, devices)
        assert [device.name for device in devices] == [name, "CPU"]
        assert problem.supports_all
        assert set(place_by_hetero(core, model, problem).tolist()) <= {0, 1}
        assert set(place_by_auto(core, model, problem).tolist()) == {0}


def test_memory_and_largest_allocation_are_those_of_the_card(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPU_LAYER_DISCRETE", "1")
    monkeypatch.setenv("GPU_LAYER_MEMORY", "300000000")
    gpu = resolve_devices("GPU", "measured", ov.Core())[0]
    assert (gpu.memory_bytes, gpu.allocation_bytes) == (300_000_000, 150_000_000)
    assert not gpu.memory_pool


@pytest.mark.slow
def test_the_plugin_takes_the_properties_that_we_allow() -> None:
    core, model = ov.Core(), make_small()
    for key in sorted(list_taken("GPU") - NOT_HERE):
        spec = DeviceSpec("GPU", properties={key: VALUES.get(key, 1)})
        assert core.compile_model(model, "GPU", spec.compile_properties()), key


@pytest.mark.slow
def test_ends_of_ranges_are_those_of_the_plugins() -> None:
    core, model = ov.Core(), make_small()
    for key, least, most in (
        ("OFFLOAD_RATIO", -1, 101),
        ("ACTIVATIONS_SCALE_FACTOR", None, 65505),
        ("PERFORMANCE_HINT_NUM_REQUESTS", -1, None),
    ):
        for end, beyond in zip(PROPERTIES[key][1:3], (least, most), strict=True):
            assert core.compile_model(model, "GPU", {key: str(end)}), key
            if beyond is not None:
                with pytest.raises(RuntimeError):
                    core.compile_model(model, "GPU", {key: str(beyond)})


def test_the_plugin_refuses_the_properties_that_we_do() -> None:
    core = ov.Core()
    supported = set(core.get_property("GPU", "SUPPORTED_PROPERTIES"))
    assert not supported & (list_taken("CPU") - list_taken("GPU"))
    of_cpu = set(core.get_property("CPU", "SUPPORTED_PROPERTIES"))
    assert not of_cpu & (list_taken("GPU") - list_taken("CPU"))
