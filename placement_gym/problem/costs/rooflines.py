"""Shipped constants of the roofline model, by kind of device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from placement_gym.base import UserError, check_choice, suggest
from placement_gym.hardware import PRESETS, DeviceSpec

REFERENCE_CORES = 8
"""Cores of the CPU in ``ROOFLINES``: its rates are those of all of them."""

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
"""Types that neither compute nor move anything: views and ends of the graph."""


@dataclass(frozen=True)
class Roofline:
    """Bounds of an operator's time: arithmetic or memory traffic, after a fixed launch.

    Attributes:
        gflops: Rate of each operator class in f32.
        gbytes_per_s: Bandwidth of the device's memory.
        fill_elements: Output elements that keep the whole device busy; an operator with fewer
            reaches a proportional share of the rate.
        launch_ms: Fixed time of an operator.
        link_ms: Fixed time of a transfer between the device and the host's memory.
        link_gbytes_per_s: Its bandwidth; infinite for the host itself.
        precision: Factor of ``gflops`` in other precisions than f32; ``"i8"`` is that of
            convolutions and products of a quantised model.
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
        """GFLOP/s for an operator type."""
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
"""By ``DeviceSpec.roofline``, else by the kind of device. Hand-tuned: plausible orders of
magnitude, not measured. The last two reproduce the HSDAG paper's Table 2, see ``analytic``. NVLink
connects host and GPU here, as on boards that have it between them."""


def roofline(device: DeviceSpec) -> Roofline:
    """The constants of a device.

    Raises:
        ValueError: The device's roofline or kind is unknown.
    """
    check_kind(device)
    return ROOFLINES[device.roofline or device.kind]


def check_kind(device: DeviceSpec, further_kinds: Sequence[str] = ()) -> None:
    """Raise unless a device has a known roofline or kind, or one of the further kinds."""
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
    """Share of a CPU's arithmetic rate under its thread limit, else 1."""
    # Memory bandwidth is not scaled: a few threads already saturate it.
    if device.kind != "CPU" or device.threads is None:
        return 1.0
    return min(device.threads / REFERENCE_CORES, 1.0)
