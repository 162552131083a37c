"""Devices: specifications, presets, and their properties."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from placement_gym.base import (
    MAX_INTEGER,
    UserError,
    check_choice,
    check_integer,
    check_not_negative,
    unknown_name,
)
from placement_gym.hardware.properties import PROPERTIES, check_properties, write_value

PRECISIONS = ("f32", "f16", "bf16")
MAX_NAME = 64
"""Longest name of a device: tables have a column for each."""
MAX_THREADS = 4096
"""Largest number of threads of a device."""
KINDS = ("CPU", "GPU", "NPU")
NATIVE_PRECISION = {"NPU": "f16"}
ALIASABLE = ("CPU", "GPU")
"""Kinds of devices whose plugin may have a second name."""


@dataclass(frozen=True)
class DeviceSpec:
    """A device that units can be placed on, with settings that hold in every measurement.

    Attributes:
        name: Name in placements, tables and OpenVINO, such as ``"CPU"`` or ``"GPU.0"``.
        plugin: OpenVINO device that runs this one, if its name differs. A CPU or GPU under a second
            name, such as ``"CPU_FAST"``, is a virtual device.
        precision: Inference precision: ``"f32"``, ``"f16"`` or ``"bf16"``; GPUs have no bf16.
        threads: CPU threads; None means all cores this process may use. GPUs and NPUs have none.
        memory_bytes: Bytes of weights that the device holds; None means no limit.
        allocation_bytes: Bytes of the largest tensor it allocates; None means no limit.
        weight_share: ``memory_bytes`` as a share of the model's weights, between 0 and 1.
        memory_pool: Name of memory that several devices share, such as ``"host"``, whose limit
            applies to all together; empty for none.
        reported_bytes: Memory that an integrated device reports. It is no limit, because more may
            run slowly: plans report if it is exceeded, and measure variants near it.
        properties: Further OpenVINO compile properties, of ``properties.PROPERTIES``.
        roofline: Constants for simulations, a key of ``ROOFLINES`` of ``problem.costs``; by default
            those of its kind. With a roofline a simulated device may have any name.

    Raises:
        ValueError: A field has the wrong type or is out of range, or a virtual device's name cannot
            be registered.
    """

    name: str
    plugin: str = ""
    precision: str = "f32"
    threads: int | None = None
    memory_bytes: int | None = None
    allocation_bytes: int | None = None
    weight_share: float | None = None
    memory_pool: str = ""
    reported_bytes: int | None = None
    properties: Mapping[str, Any] = field(default_factory=dict, hash=False)
    roofline: str = ""

    def __post_init__(self) -> None:
        for key in ("name", "plugin", "roofline", "memory_pool"):
            text = getattr(self, key)
            if not (isinstance(text, str) and len(text) <= MAX_NAME and text.isprintable()):
                raise UserError(
                    f"a device's {key} must be text, at most {MAX_NAME} printable characters, not "
                    f"{text!r:.80}"
                )
        check_choice(f"{self.name}: precision", self.precision, PRECISIONS)
        self.check_virtual()
        self.check_kind()
        if self.threads is not None:
            check_integer(f"{self.name}: threads (None: all cores)", self.threads, 1, MAX_THREADS)
        sizes = ("memory_bytes", "allocation_bytes", "reported_bytes")
        for key, most in (*((size, MAX_INTEGER) for size in sizes), ("weight_share", 1.0)):
            if (value := getattr(self, key)) is not None:
                check_not_negative(f"{self.name}: {key} (None: no limit)", value, most)
        if not isinstance(self.properties, Mapping):
            raise UserError(
                f"{self.name}: properties must be a mapping, not {self.properties!r:.80}"
            )
        check_properties(self.name, self.kind, self.properties)

    def check_virtual(self) -> None:
        """Raise ``UserError`` if OpenVINO cannot register a virtual device."""
        if not self.virtual:
            return
        if self.kind not in ALIASABLE:
            raise UserError(
                f"{self.name}: only the plugins of {' and '.join(ALIASABLE)} can have a second "
                f"name, not {self.plugin!r}"
            )
        # OpenVINO reads the text after a dot as the number of the device, which only GPUs have.
        _, dot, number = self.name.partition(".")
        if self.kind not in self.name or (dot and f".{number}" not in self.plugin):
            raise UserError(
                f"{self.name}: a virtual {self.kind} device needs {self.kind!r} in its name and no "
                f"dot, as in '{self.kind}_FAST'"
            )

    def check_kind(self) -> None:
        """Raise ``UserError`` for settings that devices of this kind do not have."""
        if self.kind not in ("GPU", "NPU"):
            return
        if self.threads is not None:
            raise UserError(
                f"{self.name}: only a CPU has threads, not a {self.kind}; property NUM_STREAMS is "
                "the number of inferences at a time"
            )
        if self.kind == "GPU" and self.precision == "bf16":
            raise UserError(f"{self.name}: a GPU computes in 'f32' or 'f16', not in 'bf16'")

    @property
    def virtual(self) -> bool:
        """Whether the device is another one under a second name."""
        return bool(self.plugin) and self.plugin != self.name

    @property
    def kind(self) -> str:
        """The plugin's base name: ``"CPU"``, ``"GPU"``, ``"NPU"``."""
        return (self.plugin or self.name).split(".")[0]

    @property
    def host(self) -> bool:
        """Whether the device computes in the host's memory."""
        return self.kind == "CPU"

    def limit_bytes(self, model_bytes: int) -> float:
        """Return the bytes of a model's weights that fit, infinite without a limit."""
        share = float("inf") if self.weight_share is None else self.weight_share * model_bytes
        return min(share, float("inf") if self.memory_bytes is None else self.memory_bytes)

    def compile_properties(self) -> dict[str, Any]:
        """Return the OpenVINO properties that fix precision, threads and streams."""
        fixed: dict[str, Any] = {"INFERENCE_PRECISION_HINT": self.precision}
        if self.kind == "CPU":
            fixed |= {
                "INFERENCE_NUM_THREADS": self.threads or usable_cores(),
                "NUM_STREAMS": 1,
                "ENABLE_CPU_PINNING": False,
            }
        if self.kind == "CPU" and self.precision == "f32":
            # By default the CPU rounds caches to f16, but only if it fuses attention.
            fixed["KV_CACHE_PRECISION"] = "f32"
        # As text: plugins take different types, the GPU's refuses the number 2 as NUM_STREAMS.
        return fixed | {key: write_value(value) for key, value in self.properties.items()}

    @property
    def limited(self) -> bool:
        """Whether a limit of the device's memory is stated."""
        return (self.memory_bytes, self.weight_share) != (None, None)

    @property
    def streams(self) -> int:
        """Number of inferences at a time; 1 if OpenVINO chooses."""
        streams = str(self.compile_properties().get("NUM_STREAMS", 1))
        return max(int(streams), 1) if streams.lstrip("-").isdigit() else 1

    def with_streams(self, streams: int) -> DeviceSpec:
        """Return the device with this number of streams."""
        return replace(self, properties={**self.properties, "NUM_STREAMS": streams})

    def to_json(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        defaults = DeviceSpec(self.name)
        return {
            key: value
            for key, value in asdict(self).items()
            if key == "name" or value != getattr(defaults, key)
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> DeviceSpec:
        """Read a specification; the inverse of ``to_json``."""
        keys = [item.name for item in fields(cls)]
        if not isinstance(values, Mapping) or "name" not in values:
            raise UserError(f"a device needs 'name' and takes {keys}, not {values!r:.200}")
        for key in values:
            if key not in keys:
                raise unknown_name(f"device {values['name']!r:.80}: a key", key, keys)
        return cls(**values)


TESTBED = (DeviceSpec("CPU", threads=1), DeviceSpec("CPU_FAST", plugin="CPU"))
PRESETS: dict[str, tuple[DeviceSpec, ...]] = {
    "cpu-testbed": TESTBED,
    "cpu-testbed-limited": (TESTBED[0], replace(TESTBED[1], weight_share=0.5)),
    "cpu-testbed-limited-3": (
        TESTBED[0],
        replace(TESTBED[1], weight_share=0.35),
        DeviceSpec("CPU_TWO", plugin="CPU", threads=2, weight_share=0.35),
    ),
    "cpu-testbed-bf16": (
        TESTBED[0],
        DeviceSpec("CPU_FAST", plugin="CPU", precision="bf16", threads=1),
    ),
    "cpu-testbed-pair": (TESTBED[0], DeviceSpec("CPU_TWIN", plugin="CPU", threads=1)),
    "cpu-p+e": (
        DeviceSpec("CPU_P", plugin="CPU", properties={"SCHEDULING_CORE_TYPE": "PCORE_ONLY"}),
        DeviceSpec("CPU_E", plugin="CPU", properties={"SCHEDULING_CORE_TYPE": "ECORE_ONLY"}),
    ),
    "cpu+igpu": (DeviceSpec("CPU"), DeviceSpec("GPU", roofline="iGPU")),
    "cpu+dgpu": (DeviceSpec("CPU"), DeviceSpec("GPU")),
    "cpu+2dgpu": (DeviceSpec("CPU"), DeviceSpec("GPU.0"), DeviceSpec("GPU.1")),
    "cpu+igpu+npu": (
        DeviceSpec("CPU"),
        DeviceSpec("GPU", roofline="iGPU"),
        DeviceSpec("NPU", precision="f16"),
    ),
    "hsdag-paper": (
        DeviceSpec("CPU", roofline="HSDAG-CPU"),
        DeviceSpec("GPU", roofline="HSDAG-GPU"),
    ),
}
TESTBED_PRESETS = tuple(
    name for name, specs in PRESETS.items() if all(spec.kind == "CPU" for spec in specs)
)
"""Presets that need only a CPU."""


def is_testbed(devices: Sequence[DeviceSpec]) -> bool:
    """Return whether two of the devices are one physical device under two names."""
    return any(spec.virtual for spec in devices)


def has_mixed_precision(devices: Sequence[DeviceSpec]) -> bool:
    """Return whether the devices compute in different precisions, or round differently."""
    settings = set()
    for spec in devices:
        rounding = [f"{k}={v}" for k, v in spec.properties.items() if PROPERTIES[k].rounds]
        settings.add((spec.precision, *sorted(rounding)))
    return len(settings) > 1


def collect_cautions(devices: Sequence[DeviceSpec], measured: bool = True) -> list[str]:
    """Return cautions about latencies on the devices."""
    cautions = []
    if not measured:
        cautions.append("simulated: no claim about a real device")
    elif is_testbed(devices):
        virtual = next(spec for spec in devices if spec.virtual)
        claim = "a GPU" if virtual.host else "two"
        cautions.append(
            f"test bed: virtual devices of one {virtual.kind}, never a claim about {claim}"
        )
    if has_mixed_precision(devices):
        cautions.append("mixed precision: not a placement gain")
    return cautions


def identify_device(name: str) -> str:
    """Return a device's unique name: OpenVINO uses both ``GPU`` and ``GPU.0``."""
    return f"{name}.0" if name.startswith("GPU") and "." not in name else name


def find_device(names: Sequence[str], answer: str) -> int:
    """Return the index of the device that OpenVINO names; ``ValueError`` if it is none of them."""
    return [identify_device(name) for name in names].index(identify_device(answer))


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
