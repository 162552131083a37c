# White-box tests of backends
"""Kinds of failure: whatever an engine raises has one, and each says what follows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from placement_gym.backends import EngineFailureError, Kind, Measurement, check_values, classify
from placement_gym.backends.failures import POLICIES

TOO_LARGE = """Check '!exceed_allocatable_mem_size' failed at src/intel_gpu/engine.cpp:319:
[GPU] Exceeded max size of memory object allocation: requested 4194304 bytes, but max alloc size \
supported by device is 1000000 bytes. Please try to reduce batch size, use lower precision, or set \
ov::intel_gpu::hint::enable_large_allocations config property to true.


"""
GOOD = Measurement(10.0, 12.0, 11.0, noise=0.01)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (RuntimeError("Exception from plugin.cpp:1:\nno such op"), Kind.INFEASIBLE, "no such op"),
        (ValueError("odd"), Kind.INFEASIBLE, "ValueError: odd"),
        (KeyError("unordered_map::at"), Kind.INFEASIBLE, "KeyError: 'unordered_map::at'"),
        (RuntimeError(""), Kind.INFEASIBLE, "RuntimeError"),
        (RuntimeError(TOO_LARGE), Kind.INFEASIBLE, "requested 4194304 bytes"),
        (RuntimeError("[GPU] clFlush, error code: -5 CL_OUT_OF_RESOURCES"), Kind.TRANSIENT, ""),
        (RuntimeError("[GPU] clEnqueueMapBuffer, error code: -6"), Kind.TRANSIENT, ""),
        (RuntimeError("[GPU] clWaitForEvents, error code: -14"), Kind.INFEASIBLE, ""),
        (MemoryError(), Kind.TRANSIENT, "MemoryError"),
        (RuntimeError("std::bad_alloc"), Kind.TRANSIENT, ""),
        (OSError(11, "Resource temporarily unavailable"), Kind.TRANSIENT, ""),
        (OSError(12, "Cannot allocate memory"), Kind.TRANSIENT, ""),
        (RuntimeError("Out Of Memory"), Kind.TRANSIENT, ""),
        (RuntimeError("refused: can't alloc"), Kind.TRANSIENT, ""),
        (RuntimeError("refused: can't allocate so much on NPU"), Kind.INFEASIBLE, ""),
        (RuntimeError("Failed to allocate 9437184 bytes of memory"), Kind.TRANSIENT, ""),
        (RuntimeError("[GPU] Failed to allocate 9437184 bytes"), Kind.INFEASIBLE, ""),
        (RuntimeError("CL_OUT_OF_HOST_MEMORY"), Kind.TRANSIENT, ""),
        (
            caused(RuntimeError("refused: see above"), RuntimeError("std::bad_alloc\nin a.cpp")),
            Kind.TRANSIENT,
            "refused: see above",
        ),
        (RuntimeError("DEVICE_LOST"), Kind.DEAD, ""),
        (EngineFailureError(Kind.INVALID_VALUE, "-1 ms"), Kind.INVALID_VALUE, "-1 ms"),
    ],
)
def test_every_engine_exception_has_a_kind_and_a_one_line_reason(
    error: Exception, kind: Kind, reason: str
) -> None:
    failure = classify(error)
    assert failure.kind == kind
    assert reason in str(failure)
    assert "\n" not in str(failure)


@pytest.mark.parametrize(
    "text",
    [
        "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE",
        "clCreateBuffer: CL_INVALID_BUFFER_SIZE",
        "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
        TOO_LARGE,
        TOO_LARGE.replace("Exceeded", "Exceeds"),
        "[CL ext] Can not allocate 256 bytes for USM Host. ptr: 0, error: -4",
        "[GPU] clCreateBuffer, error code: -61",
    ],
)
def test_a_device_without_memory_is_a_limit_also_where_the_host_lacks_some(text: str) -> None:
    # Alone it would be one in any case: that is what an unknown text amounts to.
    failure = classify(caused(RuntimeError(text), RuntimeError("std::bad_alloc")))
    assert failure.kind == Kind.INFEASIBLE


def test_only_a_transient_failure_blames_no_placement() -> None:
    assert set(POLICIES) == set(Kind)
    assert [kind for kind in Kind if not POLICIES[kind].is_result] == [Kind.TRANSIENT]
    assert len(POLICIES[Kind.DEAD].pauses_s) == 1  # tried once more
    assert POLICIES[Kind.DEAD].remembered


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *product(
            ("latency_ms", "reference_ms", "latency_p90_ms"),
            (float("nan"), float("inf"), float("-inf"), -1.0, 0.0),
        ),
        *(("noise", value) for value in (float("nan"), -0.1)),
    ],
)
def test_latencies_and_noise_that_no_clock_shows_are_refused(field: str, value: float) -> None:
    said = None if field == "noise" else "the clock showed"
    with pytest.raises(EngineFailureError, match=said) as failed:
        check_values(replace(GOOD, **{field: value}))
    assert failed.value.kind == Kind.INVALID_VALUE


def test_percentile_below_the_median_is_invalid() -> None:
    with pytest.raises(EngineFailureError):
        check_values(replace(GOOD, latency_p90_ms=9.0))
    uncertain = replace(GOOD, noise=float("inf"))
    assert check_values(uncertain) is uncertain
    assert check_values(GOOD) is GOOD
