# White-box tests of backends.measured
"""Devices that hold nothing although weights were placed on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
import pytest
from testbed import known_problem, measure_here

from placement_gym.backends.measured import TimingProtocol
from placement_gym.backends.measured.hetero import STATISTICS
from placement_gym.models import load_model

ONCE = TimingProtocol(warmup=0, repeats=1)
PIPELINED = TimingProtocol(warmup=0, repeats=1, objective="throughput", window=2)


class ReportingCore(ov.Core):
    """OpenVINO where devices report memory as GPUs do: each answer is a megabyte more.

    Args:
        empty: The device that stays empty, of which aliases begin with it.
    """

    def __init__(self, empty: str = "") -> None:
        super().__init__()
        self.empty, self.answers = empty, 0

    def get_property(self, device: str, name: str) -> Any:  # type: ignore[override]
        if name == "SUPPORTED_PROPERTIES":
            return [*super().get_property(device, name), STATISTICS]
        if name != STATISTICS:
            return super().get_property(device, name)
        self.answers += 1
        held = 0 if self.empty and device.startswith(self.empty) else 1_000_000 * self.answers
        return {"cl_mem": 0, "usm_device": held, "usm_host": 0}


def measure(core: ov.Core, protocol: TimingProtocol = ONCE) -> Any:
    """The toy, whose weights are on both devices."""
    problem = known_problem("tiny")
    backend = measure_here(core, load_model("tiny"), problem, protocol=protocol)
    heavy = np.flatnonzero(problem.unit_bytes)
    return backend.evaluate((np.arange(problem.n_units) >= heavy[-1]).astype(np.int64))


@pytest.mark.parametrize("protocol", [ONCE, PIPELINED], ids=["latency", "throughput"])
def test_memory_that_devices_report_stands_beside_what_was_placed(protocol: TimingProtocol) -> None:
    measured = measure(ReportingCore(), protocol)
    assert measured.feasible
    assert all(placed > 0 for placed in measured.memory_bytes)
    assert len(measured.held_bytes) == 2
    assert all(held > 0 for held in measured.held_bytes)


def test_a_device_that_holds_nothing_is_an_error_in_words() -> None:
    measured = measure(ReportingCore(empty="CPU_FAST"))
    assert not measured.feasible
    assert "CPU_FAST holds nothing, though" in measured.error
    assert "use compile_stages" in measured.error


def test_devices_that_report_no_memory_are_believed() -> None:
    assert measure(ov.Core()).held_bytes == (None, None)
