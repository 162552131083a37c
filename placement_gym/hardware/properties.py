"""OpenVINO's compile properties that a device may have."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from placement_gym.base import UserError, suggest

MAX_VALUE = 64
OF_BOTH = frozenset(
    {
        "DYNAMIC_QUANTIZATION_GROUP_SIZE",
        "ENABLE_CPU_PINNING",
        "ENABLE_CPU_RESERVATION",
        "EXCLUSIVE_ASYNC_REQUESTS",
        "EXECUTION_MODE_HINT",
        "KV_CACHE_PRECISION",
        "NUM_STREAMS",
        "PERFORMANCE_HINT",
        "PERFORMANCE_HINT_NUM_REQUESTS",
        "PERF_COUNT",
    }
)
"""Compile properties that the plugins of CPU and GPU take, as OpenVINO 2026.4 reports them."""
OF_CPU = frozenset(
    {
        "CPU_DENORMALS_OPTIMIZATION",
        "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE",
        "ENABLE_HYPER_THREADING",
        "ENABLE_TENSOR_PARALLEL",
        "KEY_CACHE_GROUP_SIZE",
        "KEY_CACHE_PRECISION",
        "MODEL_DISTRIBUTION_POLICY",
        "SCHEDULING_CORE_TYPE",
        "TBB_PARTITIONER",
        "VALUE_CACHE_GROUP_SIZE",
        "VALUE_CACHE_PRECISION",
    }
)
"""Properties that only the plugin of the CPU takes."""
OF_GPU = frozenset(
    {
        "ACTIVATIONS_SCALE_FACTOR",
        "COMPILATION_NUM_THREADS",
        "GPU_DISABLE_WINOGRAD_CONVOLUTION",
        "GPU_ENABLE_LARGE_ALLOCATIONS",
        "GPU_ENABLE_LOOP_UNROLLING",
        "GPU_ENABLE_SDPA_OPTIMIZATION",
        "GPU_HOST_TASK_PRIORITY",
        "GPU_QUEUE_PRIORITY",
        "GPU_QUEUE_THROTTLE",
        "MODEL_PRIORITY",
        "OFFLOAD_RATIO",
    }
)
"""Properties that the plugin of the GPU takes, and that of the CPU does not."""
OF_NPU = frozenset({"NPU_MAX_TILES", "NPU_TILES", "NPU_TURBO"})
PROPERTIES = OF_BOTH | OF_CPU | OF_GPU | OF_NPU
"""Compile properties that a device may state: none of them writes or reads a file."""
TAKEN = {"CPU": OF_BOTH | OF_CPU, "GPU": OF_BOTH | OF_GPU}
"""Kind of device -> all properties that its plugin accepts."""
FIELDS = {"INFERENCE_NUM_THREADS": "threads", "INFERENCE_PRECISION_HINT": "precision"}
"""Property -> the field of a device that sets it."""
PRECISION_PROPERTIES = frozenset(
    {
        "ACTIVATIONS_SCALE_FACTOR",
        "CPU_DENORMALS_OPTIMIZATION",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE",
        "EXECUTION_MODE_HINT",
        "KEY_CACHE_GROUP_SIZE",
        "KEY_CACHE_PRECISION",
        "KV_CACHE_PRECISION",
        "VALUE_CACHE_GROUP_SIZE",
        "VALUE_CACHE_PRECISION",
    }
)
"""Properties that change results, as the precision does."""
GROUP_SIZES = 0, 2**64 - 1
RANGES: dict[str, tuple[float, float]] = {
    "ACTIVATIONS_SCALE_FACTOR": (-1, 65504),
    "COMPILATION_NUM_THREADS": (1, 4096),
    "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE": (0, 1),
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": GROUP_SIZES,
    "KEY_CACHE_GROUP_SIZE": GROUP_SIZES,
    "NPU_MAX_TILES": (-1, 64),
    "NPU_TILES": (-1, 64),
    "NUM_STREAMS": (-2, 256),
    "OFFLOAD_RATIO": (0, 100),
    "PERFORMANCE_HINT_NUM_REQUESTS": (0, 4096),
    "VALUE_CACHE_GROUP_SIZE": GROUP_SIZES,
}
"""Smallest and largest value of numeric properties (``OFFLOAD_RATIO`` is a percentage); all others
are words, or flags: 0 or 1."""


def check_properties(name: str, kind: str, properties: Mapping[str, Any]) -> None:
    """Raise unless all compile properties of a device are known to be safe.

    Others read or write files, and files of devices may come from strangers.

    Raises:
        UserError: A property is not in ``PROPERTIES``, devices of this kind do not take it, or its
            value is neither text nor a number, or out of range.
    """
    for key, value in properties.items():
        if key in FIELDS:
            raise UserError(f"{name}: set {FIELDS[key]!r} of the device, not property {key}")
        if key not in PROPERTIES:
            raise UserError(
                f"{name}: property {key!r:.60} is not allowed{suggest(key, PROPERTIES)}; see "
                "placement_gym.hardware.properties, or pass it to compile_model as config"
            )
        accepted = TAKEN.get(kind, PROPERTIES)
        if key not in accepted:
            raise UserError(
                f"{name}: OpenVINO's {kind} plugin does not take property {key}; it takes "
                f"{', '.join(sorted(accepted))}"
            )
        if not isinstance(value, (str, int, float)) or len(str(value)) > MAX_VALUE:
            raise UserError(f"{name}: property {key} must be text or a number, not {value!r:.60}")
        smallest, largest = RANGES.get(key, (0, 1))
        # A word is text that no engine reads as a number.
        is_word = isinstance(value, str) and value[:1].isalpha() and not is_within(value)
        if not is_word and not is_within(value, smallest, largest):
            raise UserError(
                f"{name}: property {key} must be a word or a number from {smallest} to {largest}, "
                f"not {value!r:.60}"
            )


def write_value(value: str | float) -> str:
    """Return the text of a property's value, which every plugin reads."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return str(value)


def is_within(value: str | float, smallest: float = -inf, largest: float = inf) -> bool:
    """Return whether a value, or the number that it spells, is in a range; NaN is in none."""
    try:
        return smallest <= float(value) <= largest
    except (ValueError, OverflowError):
        return False
