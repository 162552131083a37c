# White-box tests of backends.measured
"""Profiles are measured once and kept."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from disks import full_disk
from tensorflow_files import save_pb

from placement_gym.backends.measured import (
    QUICK,
    MeasuredBackend,
    TimingProtocol,
    build_measured_backend,
    kept_profiles,
)
from placement_gym.backends.measured.timing_protocol import FOR_FITTING
from placement_gym.base import PlacementGymWarning
from placement_gym.hardware import TESTBED, resolve_devices
from placement_gym.models import ModelSpec
from placement_gym.problem.costs import CostTable, analytic


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def tiny() -> MeasuredBackend:
    """The toy on the test bed, whose process has inspected it once for all tests."""
    return build_measured_backend(ModelSpec("tiny"), TESTBED)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tiny_profile: CostTable) -> list[TimingProtocol]:
    """The protocol of each profile that is measured, which takes no time here."""
    protocols: list[TimingProtocol] = []

    def measure_nothing(backend: MeasuredBackend, step: object) -> CostTable:
        protocols.append(backend.protocol)
        return tiny_profile

    monkeypatch.setattr(kept_profiles, "measure_profile", measure_nothing)
    return protocols


@pytest.mark.usefixtures("own_cache")
def test_a_profile_is_measured_once_and_kept_as_a_file(
    tiny: MeasuredBackend, measured: list[TimingProtocol], tiny_profile: CostTable
) -> None:
    assert kept_profiles.kept_profile(tiny) is None
    first = kept_profiles.load_or_measure(tiny, quiet=True)
    assert kept_profiles.kept_profile(tiny) == kept_profiles.profile_path(tiny)
    assert CostTable.load(kept_profiles.profile_path(tiny)).fingerprint == first.fingerprint
    assert tiny.cost_table().fingerprint == first.fingerprint == tiny_profile.fingerprint
    assert measured == [FOR_FITTING]
    kept_profiles.load_or_measure(tiny, refresh=True, quiet=True)
    assert measured == [FOR_FITTING] * 2


@pytest.mark.usefixtures("own_cache")
def test_quick_profile_is_measured_only_without_a_full_one(
    tiny: MeasuredBackend, measured: list[TimingProtocol]
) -> None:
    kept_profiles.load_or_measure(tiny, quiet=True, quick=True)
    assert kept_profiles.kept_profile(tiny) is None
    kept_profiles.load_or_measure(tiny, quiet=True)
    kept_profiles.load_or_measure(tiny, quiet=True, quick=True)
    assert measured == [QUICK, FOR_FITTING]
    assert kept_profiles.kept_profile(tiny, quick=True) == kept_profiles.profile_path(tiny)


@pytest.mark.usefixtures("own_cache")
def test_a_profile_is_found_where_a_second_read_changes_names(
    measured: list[TimingProtocol], tmp_path: Path
) -> None:
    file = save_pb(tmp_path / "net.pb")
    first, second = (
        build_measured_backend(ModelSpec(ov.Core().read_model(file)), TESTBED, isolate=False)
        for _ in range(2)
    )
    graph, other = first.problem.units.graph, second.problem.units.graph
    assert graph.names != other.names
    costs = replace(analytic(graph, TESTBED), source="profiled")
    kept_profiles.keep(costs, kept_profiles.profile_path(first), "the profile")
    assert kept_profiles.load_or_measure(first, quiet=True).fingerprint == costs.fingerprint
    assert kept_profiles.load_kept_profile(second) is not None
    assert measured == []


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("calm", [True, False])
def test_a_profile_of_a_busy_machine_is_said_and_measured_again_on_a_calm_one(
    tiny: MeasuredBackend,
    measured: list[TimingProtocol],
    tiny_profile: CostTable,
    calm: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_profiles, "is_calm", lambda: calm)
    busy = replace(tiny_profile, interference=0.4)
    kept_profiles.keep(busy, kept_profiles.profile_path(tiny), "the profile")
    said = "it is measured again" if calm else "may be slower than they could be"
    with pytest.warns(PlacementGymWarning, match=f"other programs took 40% of the time.*{said}"):
        found = kept_profiles.load_or_measure(tiny, quiet=True)
    assert len(measured) == calm
    assert found.interference == (0.0 if calm else 0.4)


@pytest.mark.usefixtures("own_cache", "measured")
def test_an_undisturbed_quick_profile_goes_before_a_full_one_that_is_not(
    tiny: MeasuredBackend, tiny_profile: CostTable
) -> None:
    for quick, share in ((False, 0.4), (True, 0.0)):
        table = replace(tiny_profile, interference=share)
        kept_profiles.keep(table, kept_profiles.profile_path(tiny, quick), "the profile")
    assert kept_profiles.load_or_measure(tiny, quiet=True, quick=True).interference == 0.0


@pytest.mark.usefixtures("own_cache")
def test_a_damaged_profile_is_set_aside_reported_and_made_again(
    tiny: MeasuredBackend, measured: list[TimingProtocol]
) -> None:
    kept_profiles.load_or_measure(tiny, quiet=True)
    path = kept_profiles.profile_path(tiny)
    good = path.read_text()
    damaged = (good[: len(good) // 2], re.sub(r"\d\.\d", "9.9", good), "")
    for number, content in enumerate(damaged):
        path.write_text(content)
        with pytest.warns(PlacementGymWarning, match=rf"{path.name}.*moved to .*damaged"):
            again = kept_profiles.load_or_measure(tiny, quiet=True)
        assert measured == [FOR_FITTING] * (number + 2)
        assert CostTable.load(path).fingerprint == again.fingerprint
    aside = sorted(path.parent.glob("*.damaged*"))
    assert sorted(file.read_text() for file in aside) == sorted(damaged)


@pytest.mark.usefixtures("own_cache")
def test_a_damaged_full_profile_leaves_the_quick_one(
    tiny: MeasuredBackend, measured: list[TimingProtocol]
) -> None:
    quick = kept_profiles.load_or_measure(tiny, quiet=True, quick=True)
    kept_profiles.profile_path(tiny).write_text("{")
    with pytest.warns(PlacementGymWarning, match="moved to"):
        found = kept_profiles.load_or_measure(tiny, quiet=True, quick=True)
    assert found.fingerprint == quick.fingerprint
    assert measured == [QUICK]


@pytest.mark.usefixtures("own_cache")
def test_a_profile_that_cannot_be_kept_is_returned(
    tiny: MeasuredBackend, measured: list[TimingProtocol]
) -> None:
    kept_profiles.load_or_measure(tiny, quiet=True)
    with full_disk(), pytest.warns(PlacementGymWarning, match="the profile could not be kept"):
        costs = kept_profiles.load_or_measure(tiny, refresh=True, quiet=True)
    assert costs.source == "profiled"
    assert kept_profiles.kept_profile(tiny) is None  # not the one before
    assert measured == [FOR_FITTING] * 2


def test_user_without_a_home_has_no_profiles(
    tiny: MeasuredBackend, measured: list[TimingProtocol], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)
    with pytest.warns(PlacementGymWarning, match="the profile could not be kept"):
        kept_profiles.load_or_measure(tiny, quiet=True)
    assert measured == [FOR_FITTING]


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_the_twin_takes_this_machines_profile_on_request() -> None:
    import gymnasium as gym

    import placement_gym  # noqa: F401

    env = gym.make(
        "DevicePlacementSim-v0", model="tiny", devices="cpu-testbed", costs="profiled"
    ).unwrapped
    assert env.cost_table().source == "profiled"  # type: ignore[attr-defined]
    _, info = env.reset(seed=0)
    assert info["latency_ms"] > 0


def test_profiles_of_other_devices_units_and_splits_are_apart() -> None:
    limited = resolve_devices("cpu-testbed-limited", "measured")
    backends = [
        build_measured_backend(ModelSpec("tiny", granularity), devices, split, isolate=False)
        for devices in (TESTBED, limited)
        for granularity in ("op", "colocated")
        for split in ("alias", "hetero")
    ]
    assert len({kept_profiles.profile_path(backend) for backend in backends}) == 8


@pytest.mark.usefixtures("own_cache")
def test_costs_are_those_of_a_quick_profile_or_of_a_full_one_that_is_kept(
    tiny: MeasuredBackend, measured: list[TimingProtocol]
) -> None:
    tiny.cost_table()
    assert measured == [QUICK]
    full = kept_profiles.load_or_measure(tiny, quiet=True)
    assert tiny.cost_table().fingerprint == full.fingerprint
    assert measured == [QUICK, FOR_FITTING]


def test_profiles_of_other_inputs_are_apart() -> None:
    images = [None, *({"image": np.full((1, 3, 64, 64), value)} for value in (0.0, 1.0))]
    backends = [
        build_measured_backend(ModelSpec("tiny", "op", inputs=image), TESTBED, isolate=False)
        for image in (*images, images[1])
    ]
    paths = [kept_profiles.profile_path(backend) for backend in backends]
    assert len({*paths}) == 3
    assert paths[1] == paths[3]
    graphs = {backend.problem.units.graph.fingerprint() for backend in backends}
    assert len(graphs) == 1
