"""Analytic costs: a roofline per device, and a star of links around the host's memory.

The costs of ``hsdag-paper`` are calibrated to latencies that HSDAG (NeurIPS 2024, Table 2) reports
for one CPU and one GPU. No roofline fits all six of them (that CPU runs Inception-V3 faster than
ResNet-50, with two thirds of its work), so each model has a factor per device: on folded graphs
0.190 and 1.597 for inception, 0.307 and 1.695 for resnet, 0.298 and 0.251 for bert-8. With the
rooflines of both devices, the best split beats the best single device by about as much as the
paper reports: 16.4, 2.7 and 4.3 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from placement_gym.base import BoolArray, FloatArray, UserError, check_choice, suggest
from placement_gym.graph import OpGraph
from placement_gym.hardware import PRESETS, DeviceSpec
from placement_gym.problem.costs.table import CostTable

REFERENCE_CORES = 8
"""Cores that the CPU in ``ROOFLINES`` has."""

CONVOLUTION, DEPTHWISE, MATMUL, VECTOR = "convolution", "depthwise", "matmul", "vector"
CLASSES = {
    "Convolution": CONVOLUTION,
    "ConvolutionBackpropData": CONVOLUTION,
    "GroupConvolution": DEPTHWISE,
    "GroupConvolutionBackpropData": DEPTHWISE,
    "MatMul": MATMUL,
    "FullyConnected": MATMUL,
    "ScaledDotProductAttention": MATMUL,
    "LSTMCell": MATMUL,
    "LSTMSequence": MATMUL,
    "GRUSequence": MATMUL,
}
FREE = frozenset(("Constant", "Parameter", "Result", "Reshape", "Squeeze", "Unsqueeze"))
"""Types that neither compute nor move anything."""


@dataclass(frozen=True)
class Roofline:
    """Bounds of an operator's time: a fixed launch, then arithmetic or memory traffic.

    Attributes:
        gflops: Rate of each operator class in f32.
        gbytes_per_s: Bandwidth of the device's memory.
        launch_ms: Fixed time of an operator.
        fill_elements: Output elements that keep the whole device busy; an operator with fewer
            reaches a proportional share of the rate.
        link_ms: Fixed time of a transfer between the device and the host's memory.
        link_gbytes_per_s: Bandwidth of the link; infinite for the host.
        precision: Factor of ``gflops`` in precisions other than f32; ``"i8"`` is for convolutions
            and products of quantised models.
    """

    gflops: Mapping[str, float]
    gbytes_per_s: float
    launch_ms: float
    fill_elements: float = 0.0
    link_ms: float = 0.0
    link_gbytes_per_s: float = float("inf")
    precision: Mapping[str, float] = field(
        default_factory=lambda: {"f16": 2.0, "bf16": 2.0, "i8": 4.0}
    )

    def rate(self, operator_type: str, precision: str) -> float:
        """The rate of an operator type in GFLOP/s."""
        kind = CLASSES.get(operator_type, VECTOR)
        return self.gflops[kind] * self.precision.get(precision, 1.0)


def rates(convolution: float, depthwise: float, matmul: float, vector: float) -> dict[str, float]:
    return {CONVOLUTION: convolution, DEPTHWISE: depthwise, MATMUL: matmul, VECTOR: vector}


ROOFLINES = {
    "CPU": Roofline(rates(400.0, 100.0, 400.0, 100.0), gbytes_per_s=40.0, launch_ms=0.001),
    "iGPU": Roofline(
        rates(1500.0, 200.0, 1200.0, 300.0),
        gbytes_per_s=50.0,
        launch_ms=0.006,
        link_ms=0.005,
        link_gbytes_per_s=20.0,
    ),
    "GPU": Roofline(
        rates(8000.0, 800.0, 8000.0, 2000.0),
        gbytes_per_s=300.0,
        launch_ms=0.006,
        link_ms=0.010,
        link_gbytes_per_s=12.0,
    ),
    "GPU-PCIe5": Roofline(
        rates(18000.0, 1800.0, 18000.0, 4500.0),
        gbytes_per_s=900.0,
        launch_ms=0.005,
        link_ms=0.008,
        link_gbytes_per_s=50.0,
    ),
    "GPU-NVLink": Roofline(
        rates(50000.0, 5000.0, 50000.0, 12000.0),
        gbytes_per_s=3000.0,
        launch_ms=0.004,
        link_ms=0.005,
        link_gbytes_per_s=400.0,
    ),
    "NPU": Roofline(
        rates(4000.0, 300.0, 3000.0, 60.0),
        gbytes_per_s=60.0,
        launch_ms=0.010,
        link_ms=0.020,
        link_gbytes_per_s=10.0,
        precision={"f32": 0.5, "i8": 2.0},
    ),
    "HSDAG-CPU": Roofline(rates(200.0, 100.0, 462.0, 38.3), gbytes_per_s=22.2, launch_ms=0.00176),
    "HSDAG-GPU": Roofline(
        rates(10100.0, 1010.0, 3760.0, 300.0),
        gbytes_per_s=347.0,
        launch_ms=0.0127,
        fill_elements=129_000.0,
        link_ms=0.002,
        link_gbytes_per_s=30.0,
    ),
}
"""Constants by ``DeviceSpec.roofline`` or by kind. Hand-tuned: plausible orders of magnitude, not
measured. The last two reproduce the HSDAG paper's Table 2. NVLink connects host and GPU."""

PUBLISHED_MS: dict[str, dict[str | None, float]] = {
    "inception": {"HSDAG-CPU": 12.8, "HSDAG-GPU": 12.0},
    "resnet": {"HSDAG-CPU": 16.0, "HSDAG-GPU": 7.81},
    "bert": {"HSDAG-CPU": 6.38, "HSDAG-GPU": 2.77},
}
GFLOPS = {"inception": 11.469, "resnet": 8.207, "bert": 1.367}
"""Work of the HSDAG paper's models, which identifies them; BERT on 8 tokens."""


def analytic(graph: OpGraph, devices: Sequence[DeviceSpec]) -> CostTable:
    """Compute a cost table from the constants of this module.

    A transfer between two devices other than the host passes through the host's memory and costs
    both links. Costs of a stateful model are for its whole scenario, timed at the shapes of the
    prefill, and of the first and the last decoded token for half of the tokens each. Costs of
    several models are for a round.
    """
    lines = [roofline(device) for device in devices]
    off_diagonal = ~np.eye(len(lines), dtype=bool)
    link_ms = np.array([line.link_ms for line in lines])
    per_mb = np.array([1.0 / line.link_gbytes_per_s for line in lines])
    operator_ms = np.zeros((len(graph), len(devices)))
    for count, phase in graph.phases or ((1.0, graph),):
        operator_ms += count * np.stack([operator_times(phase, one) for one in devices], axis=1)
    # The times of the paper's models add up to the paper's latencies.
    published = published_ms(graph)
    factors = [
        published[device.roofline] / total if device.roofline in published else 1.0
        for device, total in zip(devices, operator_ms.sum(axis=0), strict=True)
    ]
    table = CostTable(
        source="calibrated" if any(one.roofline in published for one in devices) else "analytic",
        graph=graph.fingerprint(),
        structure=graph.fingerprint(by_name=False),
        operators=graph.names,
        devices=tuple(device.name for device in devices),
        operator_ms=operator_ms,
        supported=np.ones(operator_ms.shape, dtype=np.bool_),
        memory_bytes=graph.weight_bytes,
        transfer_size=graph.tensors.size_bytes / 1e6,
        transfer_unit="MB",
        link_ms=(link_ms[:, None] + link_ms) * off_diagonal * graph.n_inferences,
        link_ms_per_size=(per_mb[:, None] + per_mb) * off_diagonal,
        submodel_ms=np.zeros(len(lines)),
        host=np.array([device.host for device in devices]),
    )
    # The paper's factors are for one inference, which a round repeats.
    return table.scaled(np.array(factors)).in_a_round(graph)


def roofline(device: DeviceSpec) -> Roofline:
    """The constants of a device; an unknown roofline or kind raises ``UserError``."""
    check_kind(device)
    return ROOFLINES[device.roofline or device.kind]


def check_kind(device: DeviceSpec, further_kinds: Sequence[str] = ()) -> None:
    """Raise unless a device's roofline or kind is known, or one of ``further_kinds``."""
    if device.roofline:
        check_choice(f"{device.name}: roofline", device.roofline, ROOFLINES)
    kinds = (*ROOFLINES, *further_kinds)
    if device.roofline or device.kind in kinds:
        return
    raise UserError(
        f"device {device.name!r} cannot be simulated: its kind must be one of "
        f"{', '.join(sorted(kinds))}, or state a roofline, as in {{'name': {device.name!r}, "
        "'roofline': 'GPU'}, or the file of a cost table as "
        f"costs={suggest(device.kind, (*kinds, *PRESETS))}"
    )


def share_of_cores(device: DeviceSpec) -> float:
    """Share of the arithmetic rate that a CPU's thread limit leaves; 1 for other devices."""
    # Memory bandwidth is not scaled, as a few threads saturate it.
    if device.kind != "CPU" or device.threads is None:
        return 1.0
    return min(device.threads / REFERENCE_CORES, 1.0)


def operator_times(graph: OpGraph, device: DeviceSpec) -> FloatArray:
    """(n_operators,) ms: a launch plus the maximum of arithmetic and memory traffic."""
    launched, arithmetic_ms, traffic_ms = time_parts(graph, device)
    times: FloatArray = launched * (
        roofline(device).launch_ms + np.maximum(arithmetic_ms, traffic_ms)
    )
    return times


def time_parts(graph: OpGraph, device: DeviceSpec) -> tuple[BoolArray, FloatArray, FloatArray]:
    """(n_operators,) each: whether an operator is launched, ms of arithmetic, ms of traffic.

    For an operator with bodies, the arithmetic is all of its slowest body's time.
    """
    line = roofline(device)
    rate = np.array([*map(line.rate, graph.types, precisions(graph, device))])
    outputs = np.array([prod(shape) for shape in graph.shapes], dtype=np.float64)
    # Small outputs leave cores of a GPU idle.
    utilisation = (
        np.clip(outputs, 1.0, line.fill_elements) / line.fill_elements
        if line.fill_elements
        else 1.0
    )
    arithmetic_ms = graph.flops / (rate * utilisation * share_of_cores(device) * 1e6)
    traffic_ms = traffic_bytes(graph) / (line.gbytes_per_s * 1e6)
    # Which body of an If runs depends on the input: the slower one counts.
    for operator, bodies in graph.bodies.items():
        runs_ms = (body.runs * float(operator_times(body.graph, device).sum()) for body in bodies)
        arithmetic_ms[operator], traffic_ms[operator] = max(runs_ms), 0.0
    launched = np.array([kind not in FREE for kind in graph.types])
    return launched, arithmetic_ms, traffic_ms


def precisions(graph: OpGraph, device: DeviceSpec) -> list[str]:
    """The precision of each operator on a device, ``"i8"`` if it is quantised."""
    quantised = np.zeros(len(graph), dtype=np.bool_) if graph.integers is None else graph.integers
    return [
        "i8" if integers and kind in CLASSES else device.precision
        for kind, integers in zip(graph.types, quantised.tolist(), strict=True)
    ]


def traffic_bytes(graph: OpGraph) -> FloatArray:
    """(n_operators,) bytes of weights, outputs and inputs."""
    tensor, reader = graph.tensors.readings()
    written_bytes = np.bincount(graph.tensors.source, graph.tensors.size_bytes, len(graph))
    read_bytes = np.bincount(reader, graph.tensors.size_bytes[tensor], len(graph))
    total: FloatArray = graph.weight_bytes + written_bytes.astype(float) + read_bytes
    return total


def published_ms(graph: OpGraph) -> dict[str | None, float]:
    """Published latency in ms by roofline; empty for models that are not the paper's."""
    # Suffixes such as "-fp16" change the precision of weights, not the work.
    base = graph.model.split("-")[0]
    is_published = base in GFLOPS and np.isclose(graph.flops.sum() / 1e9, GFLOPS[base], rtol=1e-3)
    return PUBLISHED_MS[base] if is_published else {}
