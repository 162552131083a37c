"""The calibration of ``hsdag-paper``: analytic costs scaled to a published table.

Calibrated, never measured. HSDAG (NeurIPS 2024, Table 2) states CPU-only and GPU-only latencies of
three models. A plain roofline cannot fit all six (that CPU runs Inception-V3 in less time than
ResNet-50, which needs two thirds of its work), so each model has a factor per device. On folded
graphs they are, for CPU and GPU: inception 0.190 and 1.597, resnet 0.307 and 1.695, bert-8 0.298
and 0.251. The rooflines of both devices are chosen such that the best split of co-located units
beats the best single device by about the share that the paper reports: 16.4, 2.7 and 4.3 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement_gym.base.arrays import FloatArray
from placement_gym.graph.operators import OpGraph
from placement_gym.hardware.devices import DeviceSpec

PUBLISHED_MS: dict[str, dict[str | None, float]] = {
    "inception": {"HSDAG-CPU": 12.8, "HSDAG-GPU": 12.0},
    "resnet": {"HSDAG-CPU": 16.0, "HSDAG-GPU": 7.81},
    "bert": {"HSDAG-CPU": 6.38, "HSDAG-GPU": 2.77},
}
GFLOPS = {"inception": 11.469, "resnet": 8.207, "bert": 1.367}
"""Work of one inference with the paper's inputs, BERT on 8 tokens."""


def paper_factors(
    graph: OpGraph, devices: Sequence[DeviceSpec], total_ms: FloatArray
) -> FloatArray:
    """(n_devices,) factor of each device's operator times; 1 for other devices and models.

    Args:
        graph: The operators; name and work identify one of the paper's models.
        devices: Devices, of which those of ``hsdag-paper`` name their roofline.
        total_ms: (n_devices,) unscaled time of the whole model.
    """
    stated = published_ms(graph)
    return np.array(
        [
            stated[device.roofline] / total if device.roofline in stated else 1.0
            for device, total in zip(devices, total_ms, strict=True)
        ]
    )


def is_calibrated(graph: OpGraph, devices: Sequence[DeviceSpec]) -> bool:
    """Return whether the model's times on some device are scaled to a published latency."""
    stated = published_ms(graph)
    return any(device.roofline in stated for device in devices)


def published_ms(graph: OpGraph) -> dict[str | None, float]:
    """Latency in ms by roofline; empty unless name and work are those of a paper's model."""
    base = graph.model.split("-")[0]
    same = base in GFLOPS and np.isclose(graph.flops.sum() / 1e9, GFLOPS[base], rtol=1e-3)
    return PUBLISHED_MS[base] if same else {}
