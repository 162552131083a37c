"""Costs that a measured environment reads: those of this machine's profile, or none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from placement_gym.backends.measured import MeasuredBackend
from placement_gym.envs import FEATURES, DevicePlacementEnv, make_twin, placement_env
from placement_gym.problem.costs import CostTable, analytic
from placement_gym.solvers import RepairPrices, repair


def measure(backend: MeasuredBackend) -> CostTable:
    """A profile by which the second device is the faster one, the more the later an operator."""
    table = analytic(backend.problem.units.graph, backend.problem.devices)
    times = table.operator_ms.copy()
    times[:, 1] /= np.linspace(1.0, 4.0, len(times))
    return replace(table, operator_ms=times)


def made(**kwargs: Any) -> DevicePlacementEnv:
    options = {
        "model": "tiny",
        "devices": "cpu-testbed-limited",
        "isolate": False,
        "repair": True,
        **kwargs,
    }
    return placement_env(gym.make("DevicePlacement-v0", **options))


@pytest.fixture
def profiled(monkeypatch: pytest.MonkeyPatch) -> DevicePlacementEnv:
    monkeypatch.setattr(MeasuredBackend, "cost_table", measure)
    return made(costs="profiled")


def read_table(env: DevicePlacementEnv) -> dict[str, np.ndarray]:
    (table,) = env.graph_table(devices=True).values()
    return table


def test_times_of_the_profile_are_features_and_in_the_device_table(
    profiled: DevicePlacementEnv,
) -> None:
    table, blind = read_table(profiled), read_table(made())
    n_units, times = profiled.problem.n_units, profiled.cost_table().unit_ms(profiled.problem.units)
    np.testing.assert_allclose(table["unit_ms"][:n_units], times / times.mean(), rtol=1e-5)
    features = table["x"][:n_units, FEATURES["cost"]]
    np.testing.assert_allclose(
        features[:, 0] / features[:, 1], times[:, 0] / times[:, 1], rtol=1e-4
    )
    assert not blind["x"][:, FEATURES["cost"]].any()
    assert (blind["unit_ms"] != table["unit_ms"]).any()


def test_placements_are_repaired_by_the_profiles_prices(profiled: DevicePlacementEnv) -> None:
    everything = profiled.problem.single(1)[None]
    prices = RepairPrices.from_costs(profiled.problem, profiled.cost_table())
    repaired = profiled.repair_placements(everything)
    np.testing.assert_array_equal(repaired, repair(profiled.problem, everything, prices))
    assert (repaired != made().repair_placements(everything)).any()


def test_the_twin_observes_and_repairs_as_the_measured_environment(
    profiled: DevicePlacementEnv,
) -> None:
    twin, everything = make_twin(profiled), profiled.problem.single(1)[None]
    for key, values in read_table(profiled).items():
        np.testing.assert_array_equal(read_table(twin)[key], values)
    np.testing.assert_array_equal(
        twin.repair_placements(everything), profiled.repair_placements(everything)
    )
