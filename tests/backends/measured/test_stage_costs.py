"""The costs of stages: measured on halves of a model, and kept beside the profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import diamond_costs, diamond_problem
from oracle import count_stages

from placement_gym.backends.measured import kept_profiles
from placement_gym.backends.measured.kept_profiles import load_or_measure
from placement_gym.backends.measured.stage_costs import (
    charge_stages,
    cut_in_half,
    measure_stage_costs,
)
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.errors import PlacementGymWarning
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.problem.costs.semantics import parse_schedule
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem

STAGE_MS = np.array([0.3, 0.1, 0.2])
THREE = (DeviceSpec("CPU"), DeviceSpec("GPU"), DeviceSpec("NPU"))
LOAD = parse_schedule("serial", "throughput")


class Pipelines:
    """A measured backend whose stages take their work and what each of them costs."""

    def __init__(self, problem: Problem, costs: CostTable, objective: str = "throughput") -> None:
        self.problem, self.costs, self.alias = problem, costs, False
        self.protocol = TimingProtocol(objective=objective)
        self.asked = 0

    def measure_stages(self, assignments: Sequence[IntArray]) -> FloatArray:
        self.asked += 1
        units, n = self.problem.units, len(self.problem.devices)
        ms = self.costs.unit_ms(units)
        found = [
            np.bincount(one, ms[np.arange(len(one)), one], n)
            + count_stages(units.graph, one[units.of_operator], n) * STAGE_MS[:n]
            for one in assignments
        ]
        return np.stack([found, np.multiply(2.0, found), found])  # a slow moment between

    def with_protocol(self, protocol: TimingProtocol) -> Pipelines:
        return self

    def close(self) -> None:
        pass


def backend_of(devices: tuple[DeviceSpec, ...] = THREE, **kwargs: Any) -> Any:
    problem = diamond_problem(devices)
    return Pipelines(problem, diamond_costs(problem), **kwargs)


def test_stage_cost_is_what_halves_take_beyond_the_whole() -> None:
    backend = backend_of()
    stage_ms, _ = measure_stage_costs(backend, backend.costs)
    assert stage_ms == pytest.approx(STAGE_MS)


def test_noise_makes_no_negative_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.STAGE_MS", -STAGE_MS)
    backend = backend_of()
    assert (measure_stage_costs(backend, backend.costs)[0] == 0.0).all()


def test_device_that_cannot_hold_the_model_costs_the_most() -> None:
    small = replace(THREE[2], memory_bytes=1)
    backend = backend_of((*THREE[:2], small))
    assert measure_stage_costs(backend, backend.costs)[0] == pytest.approx([0.3, 0.1, 0.3])


def test_halves_have_equal_work_and_the_later_reads_the_earlier() -> None:
    backend = backend_of()
    first, swapped = cut_in_half(backend.problem, backend.costs, 0, 1)
    assert first.tolist() == sorted(first.tolist())
    assert (first + swapped == 1).all()
    assert 0 < first.sum() < len(first)


def test_a_device_alone_takes_as_long_as_before() -> None:
    problem = diamond_problem()
    costs = replace(diamond_costs(problem), submodel_ms=np.array([0.05, 0.0]))
    charged = charge_stages(costs, STAGE_MS[:2])
    assert charged.submodel_ms == pytest.approx(STAGE_MS[:2])
    before, after = (SimulatedBackend(problem, one, LOAD) for one in (costs, charged))
    for device in (0, 1):
        alone = problem.single(device)
        found = after.evaluate_ignoring_limits(alone).latency_ms
        assert found == pytest.approx(before.evaluate_ignoring_limits(alone).latency_ms)


def test_operators_weigh_what_their_half_takes_in_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile says half of what the last operator takes."""
    monkeypatch.setattr(f"{__name__}.STAGE_MS", 0.0 * STAGE_MS)
    backend = backend_of(THREE[:2])
    true_ms = backend.costs.operator_ms
    known = np.where(np.arange(len(true_ms)) < len(true_ms) - 1, 1.0, 0.5)
    profile = replace(backend.costs, operator_ms=true_ms * known[:, None])
    whole_ms = profile.operator_ms.sum(axis=0)
    charged = charge_stages(profile, *measure_stage_costs(backend, profile))
    assert charged.operator_ms.sum(axis=0) == pytest.approx(whole_ms)
    for device, half in product((0, 1), cut_in_half(backend.problem, profile, 0, 1)):
        found, true = (ms[half == device, device].sum() for ms in (charged.operator_ms, true_ms))
        assert found == pytest.approx(true / true_ms[:, device].sum() * whole_ms[device])


def test_a_stage_never_takes_more_than_half_of_a_device() -> None:
    problem = diamond_problem()
    charged = charge_stages(diamond_costs(problem), np.array([1e6, 0.0]))
    assert charged.submodel_ms[0] == pytest.approx(charged.operator_ms[:, 0].sum())


def test_stage_costs_are_measured_once_and_only_for_throughput(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, alone = backend_of(), backend_of(objective="latency")
    monkeypatch.setattr(kept_profiles, "load_kept_profile", lambda *_: backend.costs)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert load_or_measure(alone, quiet=True) is backend.costs
    assert not alone.asked
    first = load_or_measure(backend, quiet=True)
    asked = backend.asked
    assert load_or_measure(backend, quiet=True).fingerprint == first.fingerprint
    assert backend.asked == asked == 2
    (file,) = tmp_path.rglob("stages-*.json")
    file.write_text("{")
    with pytest.warns(PlacementGymWarning, match="it is now"):
        assert load_or_measure(backend, quiet=True).fingerprint == first.fingerprint
    assert backend.asked == 4
