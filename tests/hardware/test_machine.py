# White-box tests of backends.measured, cli, hardware
"""The devices that OpenVINO finds on a machine."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import Any

import pytest
from cliff import GIB, FakeCore, laptop

from placement_gym.backends.measured.hetero import alias_device
from placement_gym.base import PlacementGymWarning, UserError
from placement_gym.cli.lists import can_measure
from placement_gym.hardware import (
    PRESETS,
    TESTBED,
    DeviceSpec,
    SignalStack,
    choose_default,
    machine,
    register,
    resolve_devices,
)
from placement_gym.hardware.machine import UnknownDeviceError


def names(devices: Sequence[DeviceSpec]) -> list[str]:
    return [device.name for device in devices]


def test_cores_of_each_type_are_a_device() -> None:
    types = [device.compile_properties()["SCHEDULING_CORE_TYPE"] for device in PRESETS["cpu-p+e"]]
    assert types == ["PCORE_ONLY", "ECORE_ONLY"]
    assert names(resolve_devices("cpu-p+e", "measured", FakeCore("CPU"))) == ["CPU_P", "CPU_E"]


@pytest.mark.parametrize("devices", ["GPU.7", ["CPU", "NPU"]])
def test_unknown_device_is_refused_with_those_available(devices: str | list[str]) -> None:
    core = FakeCore("CPU", "GPU.0")
    with pytest.raises(UnknownDeviceError, match=r"CPU, GPU\.0.*cpu-testbed"):
        resolve_devices(devices, "measured", core)


@pytest.mark.parametrize(
    ("misspelt", "nearest"), [("GPU.O", "GPU.0"), ("cpu", "CPU"), ("cpu-testbd", "cpu-testbed")]
)
def test_an_unknown_device_is_refused_with_the_nearest_name(misspelt: str, nearest: str) -> None:
    with pytest.raises(UnknownDeviceError, match=f"did you mean '{nearest}'"):
        resolve_devices(misspelt, "measured", FakeCore("CPU", "GPU.0"))


@pytest.mark.parametrize(
    ("devices", "available"),
    [("GPU,CPU", "CPU,GPU.0,GPU.1"), ("GPU.0,CPU", "CPU,GPU"), ("GPU,GPU.1", "GPU.0,GPU.1")],
)
def test_the_first_gpu_has_two_names(devices: str, available: str) -> None:
    core = FakeCore(*available.split(","))
    assert names(resolve_devices(devices, "measured", core)) == devices.split(",")


def test_two_names_of_one_gpu_are_refused() -> None:
    with pytest.raises(UserError, match=r"GPU and GPU\.0 are one device"):
        resolve_devices("GPU,GPU.0", "measured", FakeCore("CPU", "GPU.0", "GPU.1"))


@pytest.mark.parametrize("preset", ["cpu+dgpu", "cpu+igpu", "cpu+2dgpu"])
def test_presets_are_found_on_a_machine_with_two_gpus(preset: str) -> None:
    assert resolve_devices(preset, "measured", FakeCore("CPU", "GPU.0", "GPU.1"))
    assert can_measure(PRESETS[preset], {"CPU": "", "GPU.0": "", "GPU.1": ""})


def test_largest_allocation_is_read_unless_the_device_exceeds_it() -> None:
    core = FakeCore("CPU", "GPU", allocation=1000)
    assert resolve_devices("GPU", "measured", core)[0].allocation_bytes == 1000
    large = DeviceSpec("GPU", properties={"GPU_ENABLE_LARGE_ALLOCATIONS": True})
    assert resolve_devices([large], "measured", core)[0].allocation_bytes is None


def test_virtual_device_of_an_absent_plugin_is_refused() -> None:
    with pytest.raises(UnknownDeviceError, match="this machine has GPU"):
        resolve_devices([{"name": "CPU_FAST", "plugin": "CPU"}], "measured", FakeCore("GPU"))


def test_machine_with_one_device_warns_of_the_test_bed() -> None:
    with pytest.warns(PlacementGymWarning, match=r"cpu-testbed.*says nothing about a GPU"):
        devices = resolve_devices(None, "measured", FakeCore("CPU"))
    assert devices == PRESETS["cpu-testbed"]


def test_warning_is_one_line_without_a_path_shown_once() -> None:
    code = (
        "from placement_gym.base.errors import warn_user\n"
        "for _ in range(3):\n"
        "    warn_user('two virtual devices')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "placement_gym:1: PlacementGymWarning: two virtual devices\n"


@pytest.mark.filterwarnings("error")
def test_chosen_test_bed_needs_no_warning() -> None:
    assert names(resolve_devices("cpu-testbed", "measured", FakeCore("CPU"))) == ["CPU", "CPU_FAST"]


@pytest.mark.filterwarnings("error")
def test_machine_with_several_devices_uses_all_of_them() -> None:
    core = FakeCore("CPU", "GPU", "NPU")
    assert names(resolve_devices(None, "measured", core)) == ["CPU", "GPU", "NPU"]


def test_default_devices_are_those_of_the_context() -> None:
    assert resolve_devices(None, "simulated") == PRESETS["cpu+dgpu"]
    presets = {context: choose_default(context, ["CPU"])[0] for context in ("measured", "compared")}
    assert presets == {"measured": "cpu-testbed", "compared": "cpu-testbed-limited"}
    assert choose_default("compared", ["CPU", "GPU"]) == (None, "")


def test_machine_without_devices_has_nothing_to_measure_on() -> None:
    with pytest.raises(UserError, match="name one or more"):
        resolve_devices(None, "measured", FakeCore())


def test_memory_of_a_discrete_device_is_asked_of_openvino() -> None:
    cpu, gpu = resolve_devices(None, "measured", FakeCore("CPU", "GPU", memory=8 << 30))
    assert (cpu.memory_bytes, gpu.memory_bytes) == (None, 8 << 30)
    assert (cpu.memory_pool, gpu.memory_pool) == ("", "")


@pytest.fixture
def host_bytes(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(machine, "count_host_bytes", lambda: 32 * GIB)
    return 32 * GIB


def test_integrated_devices_share_the_memory_of_the_host(host_bytes: int) -> None:
    cpu, gpu, npu = resolve_devices(None, "measured", laptop("CPU", "GPU", "NPU"))
    assert {spec.memory_pool for spec in (cpu, gpu, npu)} == {"host"}
    assert {spec.memory_bytes for spec in (cpu, gpu, npu)} == {host_bytes}
    assert [spec.reported_bytes for spec in (cpu, gpu, npu)] == [None, 8 * GIB, 8 * GIB]


def test_discrete_gpus_reported_memory_is_its_limit(host_bytes: int) -> None:
    types = {"CPU": "Type.INTEGRATED", "GPU.0": "Type.INTEGRATED", "GPU.1": "Type.DISCRETE"}
    core = FakeCore(*types, memory=8 * GIB, types=types)
    cpu, integrated, discrete = resolve_devices(None, "measured", core)
    assert (cpu.memory_pool, integrated.memory_pool, discrete.memory_pool) == ("host", "host", "")
    assert (discrete.memory_bytes, discrete.reported_bytes) == (8 * GIB, None)
    assert integrated.memory_bytes == host_bytes


def test_an_npu_that_tells_no_type_is_integrated(host_bytes: int) -> None:
    npu = resolve_devices(None, "measured", FakeCore("CPU", "NPU", memory=4 * GIB))[1]
    assert (npu.memory_pool, npu.reported_bytes) == ("host", 4 * GIB)


def test_a_limit_of_the_pool_that_is_stated_stays(host_bytes: int) -> None:
    stated = {"name": "CPU", "memory_pool": "host", "memory_bytes": 16 * GIB}
    cpu, gpu = resolve_devices([stated, "GPU"], "measured", laptop())
    assert (cpu.memory_bytes, gpu.memory_bytes, gpu.memory_pool) == (16 * GIB, None, "host")


def test_a_limit_that_is_stated_for_an_integrated_gpu_is_its_own() -> None:
    own = {"name": "GPU", "memory_bytes": 1000}
    cpu, gpu = resolve_devices(["CPU", own], "measured", laptop())
    assert (gpu.memory_bytes, gpu.memory_pool, gpu.reported_bytes) == (1000, "", None)
    assert (cpu.memory_bytes, cpu.memory_pool) == (None, "")


def test_memory_of_the_host_is_counted_where_it_is_known() -> None:
    assert machine.count_host_bytes() is None or machine.count_host_bytes() > GIB


def test_given_memory_is_kept() -> None:
    core = FakeCore("CPU", "GPU", memory=8 << 30)
    gpu = resolve_devices([{"name": "GPU", "memory_bytes": 1000}], "measured", core)[0]
    assert gpu.memory_bytes == 1000


def test_only_virtual_devices_are_registered_and_only_once() -> None:
    core = FakeCore("CPU")
    for _ in range(2):
        register(core, PRESETS["cpu-testbed"])
    assert [name for _, name in core.registered] == ["CPU_FAST"]


def test_aliases_of_two_gpus_are_one_plugin() -> None:
    core = FakeCore("CPU", "GPU.0", "GPU.1")
    aliases = [alias_device(DeviceSpec(name), 1) for name in ("GPU.0", "GPU.1")]
    register(core, aliases)
    assert names(aliases) == ["GPU_ALIAS1.0", "GPU_ALIAS1.1"]
    assert core.registered == [("openvino_intel_gpu_plugin", "GPU_ALIAS1")]


def read_signal_stack() -> int | None:
    """Where this thread's stack of signal handlers is."""
    stack = SignalStack()
    ctypes.CDLL(None).sigaltstack(None, ctypes.byref(stack))
    return stack.start


@pytest.mark.skipif(sys.platform != "linux", reason="the stack of signals is read as on Linux")
def test_loading_a_plugin_leaves_the_stack_of_signal_handlers() -> None:
    # OpenVINO's plugin changes it on processors with AMX, and may leave one that it has freed
    memory = ctypes.create_string_buffer(1 << 18)

    class LoadingCore(FakeCore):
        def get_property(self, device: str, key: str) -> Any:
            stack = SignalStack(ctypes.addressof(memory), 0, len(memory))
            assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
            return super().get_property(device, key)

    before, core = read_signal_stack(), LoadingCore("CPU")
    assert names(resolve_devices("cpu-testbed", "measured", core)) == ["CPU", "CPU_FAST"]
    register(core, PRESETS["cpu-testbed"])
    assert read_signal_stack() == before != ctypes.addressof(memory)


def test_threads_that_need_the_same_name_register_it_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class SlowCore:
        def __init__(self) -> None:
            self.registered: list[str] = []

        @property
        def available_devices(self) -> list[str]:
            known = list(self.registered)
            sleep(0.02)  # another thread would register meanwhile
            return known

        def register_plugin(self, library: str, name: str) -> None:
            self.registered.append(name)

    monkeypatch.setattr(machine, "load_plugin", lambda core, device: [])
    core = SlowCore()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(register, [core, core], [TESTBED[1:]] * 2))
    assert core.registered == ["CPU_FAST"]
