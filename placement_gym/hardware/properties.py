"""OpenVINO's compile properties that a device may set."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple

from placement_gym.base import UserError, suggest

MAX_VALUE = 64
BOTH, CPU, GPU, NPU = ("CPU", "GPU"), ("CPU",), ("GPU",), ("NPU",)


class Property(NamedTuple):
    """A property of OpenVINO 2026.4 that neither reads nor writes files.

    Attributes:
        kinds: The devices that take it.
        least, most: Range of its numbers; most properties are flags. Words are taken too.
        rounds: Whether it changes results, as the precision does.
    """

    kinds: tuple[str, ...]
    least: float = 0
    most: float = 1
    rounds: bool = False


GROUP_SIZE = 2**64 - 1
PROPERTIES = {
    "ACTIVATIONS_SCALE_FACTOR": Property(GPU, -1, 65504, rounds=True),
    "COMPILATION_NUM_THREADS": Property(GPU, 1, 4096),
    "CPU_DENORMALS_OPTIMIZATION": Property(CPU, rounds=True),
    "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE": Property(CPU),
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": Property(BOTH, 0, GROUP_SIZE, rounds=True),
    "ENABLE_CPU_PINNING": Property(BOTH),
    "ENABLE_CPU_RESERVATION": Property(BOTH),
    "ENABLE_HYPER_THREADING": Property(CPU),
    "ENABLE_TENSOR_PARALLEL": Property(CPU),
    "EXCLUSIVE_ASYNC_REQUESTS": Property(BOTH),
    "EXECUTION_MODE_HINT": Property(BOTH, rounds=True),
    "GPU_DISABLE_WINOGRAD_CONVOLUTION": Property(GPU),
    "GPU_ENABLE_LARGE_ALLOCATIONS": Property(GPU),
    "GPU_ENABLE_LOOP_UNROLLING": Property(GPU),
    "GPU_ENABLE_SDPA_OPTIMIZATION": Property(GPU),
    "GPU_HOST_TASK_PRIORITY": Property(GPU),
    "GPU_QUEUE_PRIORITY": Property(GPU),
    "GPU_QUEUE_THROTTLE": Property(GPU),
    "KEY_CACHE_GROUP_SIZE": Property(CPU, 0, GROUP_SIZE, rounds=True),
    "KEY_CACHE_PRECISION": Property(CPU, rounds=True),
    "KV_CACHE_PRECISION": Property(BOTH, rounds=True),
    "MODEL_DISTRIBUTION_POLICY": Property(CPU),
    "MODEL_PRIORITY": Property(GPU),
    "NPU_MAX_TILES": Property(NPU, -1, 64),
    "NPU_TILES": Property(NPU, -1, 64),
    "NPU_TURBO": Property(NPU),
    "NUM_STREAMS": Property(BOTH, -2, 256),
    "OFFLOAD_RATIO": Property(GPU, 0, 100),  # a percentage
    "PERFORMANCE_HINT": Property(BOTH),
    "PERFORMANCE_HINT_NUM_REQUESTS": Property(BOTH, 0, 4096),
    "PERF_COUNT": Property(BOTH),
    "SCHEDULING_CORE_TYPE": Property(CPU),
    "TBB_PARTITIONER": Property(CPU),
    "VALUE_CACHE_GROUP_SIZE": Property(CPU, 0, GROUP_SIZE, rounds=True),
    "VALUE_CACHE_PRECISION": Property(CPU, rounds=True),
}
FIELDS = {"INFERENCE_NUM_THREADS": "threads", "INFERENCE_PRECISION_HINT": "precision"}
"""Property -> field of a device that sets it."""


def list_taken(kind: str) -> set[str]:
    """The properties that devices of a kind take; all, if that is not known."""
    return {name for name, one in PROPERTIES.items() if kind in one.kinds or kind not in BOTH}


def check_properties(name: str, kind: str, properties: Mapping[str, Any]) -> None:
    """Raise ``UserError`` unless all compile properties of a device are known and in range.

    Others may read or write files, and files of devices may come from strangers.
    """
    for key, value in properties.items():
        if key in FIELDS:
            raise UserError(f"{name}: set {FIELDS[key]!r} of the device, not property {key}")
        if key not in PROPERTIES:
            raise UserError(
                f"{name}: property {key!r:.60} is not allowed{suggest(key, PROPERTIES)}; see "
                "placement_gym.hardware.properties, or pass it to compile_model as config"
            )
        if key not in (taken := list_taken(kind)):
            raise UserError(
                f"{name}: OpenVINO's {kind} plugin does not take property {key}; it takes "
                f"{', '.join(sorted(taken))}"
            )
        if not isinstance(value, (str, int, float)) or len(str(value)) > MAX_VALUE:
            raise UserError(f"{name}: property {key} must be text or a number, not {value!r:.60}")
        least, most = PROPERTIES[key].least, PROPERTIES[key].most
        # A word is text that no engine reads as a number.
        is_word = isinstance(value, str) and value[:1].isalpha() and not is_within(value)
        if not is_word and not is_within(value, least, most):
            raise UserError(
                f"{name}: property {key} must be a word or a number from {least} to {most}, "
                f"not {value!r:.60}"
            )


def write_value(value: str | float) -> str:
    """Return a property's value as text, which every plugin reads."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return str(value)


def is_within(value: str | float, least: float = -inf, most: float = inf) -> bool:
    """Return whether a value, or the number that it spells, is in a range; NaN is in none."""
    try:
        return least <= float(value) <= most
    except (ValueError, OverflowError):
        return False
