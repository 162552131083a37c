"""Sets of one to five devices, with memory limits from loose to barely feasible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray, round_significant
from placement_gym.hardware.devices import NATIVE_PRECISION, DeviceSpec

LARGEST_SET = 5
SHARES_OF_COUNTS = (0.02, 0.33, 0.29, 0.18, 0.18)
"""Shares of sets that have one device, two, and so on."""
ACCELERATORS = ("iGPU", "GPU", "GPU-PCIe5", "GPU-NVLink", "NPU")
"""Rooflines, whose links range from an integrated GPU's and PCIe to NVLink."""
THREADS = (2, 4, 8)
UNLIMITED, LIMITED_HOST = 0.15, 0.3
"""Shares of sets in which no device has a limit, and in which the host has one, too."""
LOOSER = 1.1


def sample_devices(rng: np.random.Generator, unit_bytes: FloatArray) -> tuple[DeviceSpec, ...]:
    """Draw devices on which the units fit.

    Args:
        rng: Draws them.
        unit_bytes: (n_units,) bytes that each unit holds.
    """
    count = 1 + int(rng.choice(LARGEST_SET, p=SHARES_OF_COUNTS))
    devices = draw_devices(rng, count)
    if count == 1 or not unit_bytes.any() or rng.random() < UNLIMITED:
        return devices
    shares = draw_limits(rng, devices)
    while fill_best(unit_bytes, shares * unit_bytes.sum()) is None:
        shares = np.minimum(np.ceil(LOOSER * shares * 1e3) / 1e3, 1.0)
    return tuple(
        replace(device, weight_share=float(share)) if share < 1.0 else device
        for device, share in zip(devices, shares, strict=True)
    )


def draw_devices(rng: np.random.Generator, count: int) -> tuple[DeviceSpec, ...]:
    """Draw a host and accelerators, or accelerators alone; half of the sets have one kind."""
    host = count == 1 or rng.random() < 0.85
    n_accelerators = count - host
    kinds = rng.choice(ACCELERATORS, n_accelerators)
    if n_accelerators and rng.random() < 0.5:
        kinds[:] = kinds[0]
    threads = int(rng.choice(THREADS))
    hosts = (DeviceSpec("CPU", threads=threads),) if host else ()
    return (*hosts, *(make_accelerator(str(kind), i) for i, kind in enumerate(kinds)))


def make_accelerator(roofline: str, index: int) -> DeviceSpec:
    plugin = "NPU" if roofline == "NPU" else "GPU"
    precision = NATIVE_PRECISION.get(plugin, "f32")
    return DeviceSpec(f"{plugin}.{index}", precision=precision, roofline=roofline)


def draw_limits(rng: np.random.Generator, devices: tuple[DeviceSpec, ...]) -> FloatArray:
    """(n_devices,) limits as shares of the model, 1 without; they add up to 1.02 at least."""
    limited = np.array([not device.host or rng.random() < LIMITED_HOST for device in devices])
    if not limited.all():
        shares = np.exp(rng.uniform(np.log(0.05), np.log(0.9), len(devices)))
    else:
        parts = rng.dirichlet(np.full(len(devices), 5.0))
        shares = parts * np.exp(rng.uniform(np.log(1.02), np.log(2.5)))
    shares = round_significant(shares, 6)
    return np.where(limited, np.minimum(np.ceil(shares * 1e3) / 1e3, 1.0), 1.0)


def fill_best(unit_bytes: FloatArray, limits_bytes: FloatArray) -> IntArray | None:
    """(n_units,) devices by best fit of the largest units first, None if a unit does not fit."""
    room = limits_bytes.astype(np.float64)
    device = np.zeros(len(unit_bytes), dtype=np.int64)
    for unit in np.argsort(-unit_bytes, kind="stable"):
        left = room - unit_bytes[unit]
        if left.max() < 0.0:
            return None
        device[unit] = np.where(left >= 0.0, left, np.inf).argmin()
        room[device[unit]] -= unit_bytes[unit]
    return device
