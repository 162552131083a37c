"""OpenVINO's compile properties that a device may state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placement_gym.errors import UserError, suggest

MAX_VALUE = 64
PROPERTIES = frozenset(
    {
        "ACTIVATIONS_SCALE_FACTOR",
        "COMPILATION_NUM_THREADS",
        "CPU_DENORMALS_OPTIMIZATION",
        "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE",
        "ENABLE_CPU_PINNING",
        "ENABLE_CPU_RESERVATION",
        "ENABLE_HYPER_THREADING",
        "ENABLE_TENSOR_PARALLEL",
        "EXCLUSIVE_ASYNC_REQUESTS",
        "EXECUTION_MODE_HINT",
        "GPU_DISABLE_WINOGRAD_CONVOLUTION",
        "GPU_ENABLE_LOOP_UNROLLING",
        "GPU_ENABLE_SDPA_OPTIMIZATION",
        "GPU_HOST_TASK_PRIORITY",
        "GPU_QUEUE_PRIORITY",
        "GPU_QUEUE_THROTTLE",
        "INFERENCE_NUM_THREADS",
        "INFERENCE_PRECISION_HINT",
        "KEY_CACHE_GROUP_SIZE",
        "KEY_CACHE_PRECISION",
        "KV_CACHE_PRECISION",
        "MODEL_DISTRIBUTION_POLICY",
        "MODEL_PRIORITY",
        "NPU_MAX_TILES",
        "NPU_TILES",
        "NPU_TURBO",
        "NUM_STREAMS",
        "PERFORMANCE_HINT",
        "PERFORMANCE_HINT_NUM_REQUESTS",
        "PERF_COUNT",
        "SCHEDULING_CORE_TYPE",
        "TBB_PARTITIONER",
        "VALUE_CACHE_GROUP_SIZE",
        "VALUE_CACHE_PRECISION",
    }
)
"""Compile properties that a device may state: none of them writes or reads a file."""


def check_properties(name: str, properties: Mapping[str, Any]) -> None:
    """Raise unless all compile properties are known to change speed alone.

    Others write files, read them or change what is computed, and device files come from anywhere.

    Raises:
        UserError: A property is not in ``PROPERTIES``, or its value is neither text nor a number.
    """
    for key, value in properties.items():
        if key not in PROPERTIES:
            raise UserError(
                f"{name}: property {key!r:.60} is not allowed{suggest(key, PROPERTIES)}; those of "
                "placement_gym.properties are; compile_model takes others as config"
            )
        if not isinstance(value, (str, int, float)) or len(str(value)) > MAX_VALUE:
            raise UserError(f"{name}: property {key} must be text or a number, not {value!r:.60}")
