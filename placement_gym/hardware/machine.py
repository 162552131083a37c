"""The devices that OpenVINO finds on this machine."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from placement_gym.base import CompileError, UserError, last_line, suggest
from placement_gym.hardware.devices import KINDS, TESTBED_PRESETS, DeviceSpec, identify_device

if TYPE_CHECKING:
    import openvino as ov

HOST_POOL = "host"
"""The memory pool of the CPU and of integrated devices."""
REGISTERING = Lock()
"""Guards the registration of names, as several threads compile placements."""
SUPPORTED_PROPERTIES: WeakKeyDictionary[ov.Core, dict[str, list[str]]] = WeakKeyDictionary()
"""Properties of the devices whose plugins each core has loaded."""
MEMORY_PROPERTIES = ("GPU_DEVICE_TOTAL_MEM_SIZE", "NPU_DEVICE_TOTAL_MEM_SIZE")
ALLOCATION_PROPERTY = "GPU_DEVICE_MAX_ALLOC_MEM_SIZE"
LARGE_ALLOCATIONS = "GPU_ENABLE_LARGE_ALLOCATIONS"
"""Property that lets a GPU allocate more at once than it reports."""


class UnknownDeviceError(UserError):
    """A device is not available on this machine."""


ABSENT = (
    "; if it is installed, its driver or your right to use it is missing (docs/how_to/devices.md); "
    "otherwise simulate it with DevicePlacementSim-v0"
)
"""Remedy if no GPU or NPU is found."""


def check_available(specs: Sequence[DeviceSpec], available: Sequence[str]) -> None:
    """Raise ``UserError`` if this machine lacks a device, or two names mean one device."""
    present = set(map(identify_device, available))
    name_of: dict[str, str] = {}
    for spec in specs:
        first_name = name_of.setdefault(identify_device(spec.name), spec.name)
        if first_name != spec.name:
            raise UserError(f"{first_name} and {spec.name} are one device: name it once")
        if present.isdisjoint(map(identify_device, (spec.plugin or spec.name, spec.name))):
            near = suggest(spec.name, (*available, *TESTBED_PRESETS))
            is_missing = spec.kind in KINDS and not any(spec.kind in name for name in available)
            remedy = ABSENT if is_missing else near
            raise UnknownDeviceError(
                f"device {spec.name!r} is not available; this machine has {', '.join(available)} "
                f"and can split its CPU by the presets {', '.join(TESTBED_PRESETS)}{remedy}"
            )


def read_memory(core: ov.Core, spec: DeviceSpec) -> DeviceSpec:
    """Return the specification with the memory that OpenVINO reports, unless it states its own.

    The memory of a discrete device is its limit. An integrated GPU or NPU joins the host's pool,
    and its report is no limit.
    """
    if spec.virtual:
        return spec
    supported = load_plugin(core, spec.name)
    allows = str(spec.properties.get(LARGE_ALLOCATIONS, 0)).upper() in ("1", "YES", "TRUE")
    if ALLOCATION_PROPERTY in supported and spec.allocation_bytes is None and not allows:
        largest = int(core.get_property(spec.name, ALLOCATION_PROPERTY))
        spec = replace(spec, allocation_bytes=largest)
    if spec.memory_bytes is not None:
        return spec
    reported = [
        int(core.get_property(spec.name, key)) for key in MEMORY_PROPERTIES if key in supported
    ]
    if not is_integrated(core, spec):
        return replace(spec, memory_bytes=reported[0]) if reported else spec
    if spec.host or (spec.weight_share is not None and not spec.memory_pool):
        return spec
    if reported and spec.reported_bytes is None:
        spec = replace(spec, reported_bytes=reported[0])
    return replace(spec, memory_pool=spec.memory_pool or HOST_POOL)


def is_integrated(core: ov.Core, spec: DeviceSpec) -> bool:
    """Return whether a device uses the host's memory; by default CPUs and NPUs do."""
    if "DEVICE_TYPE" not in load_plugin(core, spec.name):
        return spec.kind in ("CPU", "NPU")
    return str(core.get_property(spec.name, "DEVICE_TYPE")).lower().endswith("integrated")


def share_host_memory(specs: Sequence[DeviceSpec]) -> tuple[DeviceSpec, ...]:
    """Limit the host's pool to this machine's memory, unless a limit is stated.

    The CPU joins the pool if another device is in it.
    """
    if not any(spec.memory_pool == HOST_POOL for spec in specs):
        return tuple(specs)
    joined = [
        replace(spec, memory_pool=HOST_POOL)
        if spec.host and not spec.memory_pool and not spec.limited
        else spec
        for spec in specs
    ]
    sharing = [spec for spec in joined if spec.memory_pool == HOST_POOL]
    total = count_host_bytes()
    if total is None or any(spec.limited for spec in sharing):
        return tuple(joined)
    return tuple(replace(spec, memory_bytes=total) if spec in sharing else spec for spec in joined)


def count_host_bytes() -> int | None:
    """Return the bytes of this machine's memory; None if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def register(core: ov.Core, specs: Sequence[DeviceSpec]) -> None:
    """Register missing virtual devices with a Core, and load all plugins."""
    with REGISTERING:
        for name, library in list_plugins(specs).items():
            if name not in {available.split(".")[0] for available in core.available_devices}:
                core.register_plugin(library, name)
        for spec in specs:
            load_plugin(core, spec.name)


def compile_on(
    core: ov.Core,
    model: ov.Model,
    spec: DeviceSpec,
    name: str,
    config: Mapping[str, Any] | None = None,
) -> ov.CompiledModel:
    """Compile a model on a device with its settings, and further compile properties.

    Raises:
        CompileError: OpenVINO refused the model, which the message calls ``name``.
    """
    try:
        return core.compile_model(model, spec.name, {**spec.compile_properties(), **(config or {})})
    except RuntimeError as error:
        raise CompileError(f"OpenVINO refused {name}: {last_line(error)}") from error


def list_plugins(specs: Sequence[DeviceSpec]) -> dict[str, str]:
    """Map each name to register for virtual devices to the library of its plugin.

    A plugin has one name for all numbers of a device: ``GPU_B`` for ``GPU_B.1``.
    """
    return {
        spec.name.split(".")[0]: f"openvino_intel_{spec.kind.lower()}_plugin"
        for spec in specs
        if spec.virtual
    }


def load_plugin(core: ov.Core, device: str) -> list[str]:
    """Load the plugin of a device; return the properties that it supports.

    OpenVINO is asked once, as its Python API never frees this list (2026.4).
    """
    supported = SUPPORTED_PROPERTIES.setdefault(core, {})
    if device not in supported:
        with keep_signal_stack():
            supported[device] = list(core.get_property(device, "SUPPORTED_PROPERTIES"))
    return supported[device]


class SignalStack(ctypes.Structure):
    """``stack_t`` of Linux."""

    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def keep_signal_stack() -> Iterator[None]:
    """Restore this thread's stack of signal handlers after a block that loads a plugin.

    On processors with AMX, OpenVINO's CPU plugin sets its own stack when it is loaded, and restores
    the previous one when it is unloaded. If plugins are unloaded in another order, the thread keeps
    a stack that has been freed, and Ctrl-C crashes the process. A plugin that no longer finds its
    own stack leaves it alone.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    stack, sigaltstack = SignalStack(), ctypes.CDLL(None).sigaltstack
    sigaltstack(None, ctypes.byref(stack))
    try:
        yield
    finally:
        sigaltstack(ctypes.byref(stack), None)
