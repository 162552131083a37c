"""The devices that OpenVINO finds on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from placement_gym.devices import (
    KINDS,
    TESTBED_PRESETS,
    DevicesArgument,
    DeviceSpec,
    parse_devices,
)
from placement_gym.errors import UserError, suggest, warn_user

if TYPE_CHECKING:
    import openvino as ov

MEMORY_PROPERTIES = ("GPU_DEVICE_TOTAL_MEM_SIZE", "NPU_DEVICE_TOTAL_MEM_SIZE")
TESTBED_WARNING = (
    "this machine has one device, {}: taking 'cpu-testbed', two virtual devices of one CPU. "
    "A test bed for methods, never a claim about a GPU."
)


class UnknownDeviceError(UserError):
    """A device is not available on this machine."""


def find_machine_devices(core: ov.Core, devices: DevicesArgument = None) -> tuple[DeviceSpec, ...]:
    """Return the devices to measure on, all of which this machine has.

    Args:
        core: Queried for the available devices.
        devices: As for ``parse_devices``; None means all that the machine has. On a machine with
            a single device it means the preset ``cpu-testbed``, with a warning.

    Raises:
        UnknownDeviceError: A device is not available; the message lists those that are.
    """
    available = list(core.available_devices)
    if devices is None and len(available) == 1:
        warn_user(TESTBED_WARNING.format(available[0]))
        devices = "cpu-testbed"
    specs = parse_devices(available if devices is None else devices)
    for spec in specs:
        if (spec.plugin or spec.name) not in available and spec.name not in available:
            near = suggest(spec.name, (*available, *TESTBED_PRESETS))
            absent = spec.kind in KINDS and not any(spec.kind in name for name in available)
            remedy = "; DevicePlacementSim-v0 simulates it" if absent else near
            raise UnknownDeviceError(
                f"device {spec.name!r} is not available; this machine has {', '.join(available)} "
                f"and can split its CPU by the presets {', '.join(TESTBED_PRESETS)}{remedy}"
            )
    return tuple(read_memory_limit(core, spec) for spec in specs)


def read_memory_limit(core: ov.Core, spec: DeviceSpec) -> DeviceSpec:
    """Return the specification, limited to the device's memory where OpenVINO reports it."""
    if spec.virtual or spec.memory_bytes is not None:
        return spec
    supported = core.get_property(spec.name, "SUPPORTED_PROPERTIES")
    for key in MEMORY_PROPERTIES:
        if key in supported:
            return replace(spec, memory_bytes=int(core.get_property(spec.name, key)))
    return spec


def register(core: ov.Core, specs: Sequence[DeviceSpec]) -> None:
    """Register virtual devices with a Core, unless it already knows them."""
    for spec in specs:
        if spec.virtual and spec.name not in core.available_devices:
            core.register_plugin("openvino_intel_cpu_plugin", spec.name)
