"""Analytic costs: a roofline per device, and a star of links around the host's memory.

Those of ``hsdag-paper`` are scaled to a published table: calibrated, never measured. HSDAG (NeurIPS
2024, Table 2) states CPU-only and GPU-only latencies of three models. A plain roofline cannot fit
all six (that CPU runs Inception-V3 in less time than ResNet-50, which needs two thirds of its
work), so each model has a factor per device. On folded graphs they are, for CPU and GPU: inception
0.190 and 1.597, resnet 0.307 and 1.695, bert-8 0.298 and 0.251. The rooflines of both devices are
chosen such that the best split of co-located units beats the best single device by about the share
that the paper reports: 16.4, 2.7 and 4.3 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from placement_gym.base.arrays import BoolArray, FloatArray
from placement_gym.graph.operators import OpGraph
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.problem.costs.rooflines import CLASSES, FREE, roofline, share_of_cores
from placement_gym.problem.costs.table import CostTable

PUBLISHED_MS: dict[str, dict[str | None, float]] = {
    "inception": {"HSDAG-CPU": 12.8, "HSDAG-GPU": 12.0},
    "resnet": {"HSDAG-CPU": 16.0, "HSDAG-GPU": 7.81},
    "bert": {"HSDAG-CPU": 6.38, "HSDAG-GPU": 2.77},
}
GFLOPS = {"inception": 11.469, "resnet": 8.207, "bert": 1.367}
"""Work of one inference with the paper's inputs, BERT on 8 tokens."""


def analytic(graph: OpGraph, devices: Sequence[DeviceSpec]) -> CostTable:
    """Compute a cost table from shipped constants.

    A transfer between two devices other than the host passes through the host's memory and costs
    both links. The costs of a model with state are those of its whole scenario: operators and
    transfers cost what they do at the shapes of the prefill, and of the first and the last decoded
    token, each of which stands for one half of these. Those of several models are of a round.
    """
    lines = [roofline(device) for device in devices]
    names = tuple(device.name for device in devices)
    apart = ~np.eye(len(lines), dtype=bool)
    fixed = np.array([line.link_ms for line in lines])
    per_mb = np.array([1.0 / line.link_gbytes_per_s for line in lines])
    phases = graph.phases or ((1.0, graph),)
    operator_ms = np.stack([scenario_times(phases, device) for device in devices], axis=1)
    table = CostTable(
        source="calibrated" if is_calibrated(graph, devices) else "analytic",
        graph=graph.fingerprint(),
        operators=graph.names,
        devices=names,
        operator_ms=operator_ms,
        supported=np.ones(operator_ms.shape, dtype=np.bool_),
        memory_bytes=graph.weight_bytes,
        transfer_size=graph.tensors.size_bytes / 1e6,
        transfer_unit="MB",
        link_ms=(fixed[:, None] + fixed) * apart * graph.n_inferences,
        link_ms_per_size=(per_mb[:, None] + per_mb) * apart,
        submodel_ms=np.zeros(len(lines)),
        host=np.array([device.host for device in devices]),
    )
    scaled = table.scaled(paper_factors(graph, devices, operator_ms.sum(axis=0)))
    return scaled.in_a_round(graph)


def scenario_times(phases: Sequence[tuple[float, OpGraph]], device: DeviceSpec) -> FloatArray:
    """(n_operators,) ms of all inferences; ``phases`` are numbers of them and their graphs."""
    total: FloatArray = sum(
        (count * operator_times(graph, device) for count, graph in phases), np.zeros(1)
    )
    return total


def operator_times(graph: OpGraph, device: DeviceSpec) -> FloatArray:
    """(n_operators,) ms: a launch plus the maximum of arithmetic and memory traffic."""
    busy, arithmetic_ms, traffic_ms = time_parts(graph, device)
    times: FloatArray = busy * (roofline(device).launch_ms + np.maximum(arithmetic_ms, traffic_ms))
    return times


def time_parts(graph: OpGraph, device: DeviceSpec) -> tuple[BoolArray, FloatArray, FloatArray]:
    """(n_operators,) each: whether a type is launched at all, ms of arithmetic and of traffic.

    The arithmetic of an operator with bodies is every run of the body that takes longest, with its
    own launches and traffic.
    """
    line = roofline(device)
    computed = zip(graph.types, precisions(graph, device), strict=True)
    rate = np.array([line.rate(kind, precision) for kind, precision in computed])
    outputs = np.array([prod(shape) for shape in graph.shapes], dtype=np.float64)
    filled = (
        np.clip(outputs, 1.0, line.fill_elements) / line.fill_elements
        if line.fill_elements
        else 1.0
    )
    arithmetic_ms = graph.flops / (rate * filled * share_of_cores(device) * 1e6)
    traffic_ms = traffic_bytes(graph) / (line.gbytes_per_s * 1e6)
    for operator, bodies in graph.bodies.items():
        runs_ms = (body.runs * float(operator_times(body.graph, device).sum()) for body in bodies)
        arithmetic_ms[operator], traffic_ms[operator] = max(runs_ms), 0.0
    busy = np.array([kind not in FREE for kind in graph.types])
    return busy, arithmetic_ms, traffic_ms


def precisions(graph: OpGraph, device: DeviceSpec) -> list[str]:
    """(n_operators,) what a device computes each operator in: a quantised one in integers."""
    rounded = np.zeros(len(graph), dtype=np.bool_) if graph.integers is None else graph.integers
    return [
        "i8" if integers and kind in CLASSES else device.precision
        for kind, integers in zip(graph.types, rounded.tolist(), strict=True)
    ]


def traffic_bytes(graph: OpGraph) -> FloatArray:
    """(n_operators,) bytes of weights, outputs and inputs."""
    tensor, reader = graph.tensors.readings()
    written = np.bincount(graph.tensors.source, graph.tensors.size_bytes, len(graph))
    read = np.bincount(reader, graph.tensors.size_bytes[tensor], len(graph))
    total: FloatArray = graph.weight_bytes + written.astype(float) + read
    return total


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
