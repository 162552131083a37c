# White-box tests of view
"""What a page shows of placements."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fakes import diamond_backend
from graphs import op_graph, simulate

from placement_gym.problem.costs import PRESETS
from placement_gym.view import DisplayedPlacement, Scene, make_view_data
from placement_gym.view.data import find_runs

SPLIT = np.array([0, 0, 1, 1])


@pytest.fixture
def diamond() -> dict:
    backend = diamond_backend()
    return make_view_data(
        Scene(backend, (DisplayedPlacement("split", SPLIT), DisplayedPlacement("alone", SPLIT * 0)))
    )


def test_measured_latency_is_shown_with_the_simulated_one() -> None:
    shown = (DisplayedPlacement("split", SPLIT, "", 3.5), DisplayedPlacement("alone", SPLIT * 0))
    placements = make_view_data(Scene(diamond_backend(), shown))["placements"]
    assert [placement["measured_ms"] for placement in placements] == [3.5, None]


def test_units_have_names_types_shapes_and_times_on_each_device(diamond: dict) -> None:
    backend, units = diamond_backend(), diamond["units"]
    assert units["name"] == list(backend.problem.units.names)
    kinds = [units["type"]["texts"][index] for index in units["type"]["index"]]
    assert kinds == list(backend.problem.units.graph.types)
    shape = units["shape"]["texts"][units["shape"]["index"][0]]
    assert shape.startswith("f32 [")
    expected = backend.costs.unit_ms(backend.problem.units).T
    assert units["ms"] == [pytest.approx(column, rel=1e-3) for column in expected.tolist()]


def test_a_unit_of_several_operators_lists_each_with_its_type() -> None:
    backend = simulate("tiny")
    problem, units = backend.problem, backend.problem.units
    shown = make_view_data(Scene(backend, (DisplayedPlacement("one", problem.single(0)),)))["units"]
    listed = shown["operators"]
    found = dict(zip(listed["name"], listed["unit"], strict=True))
    counts = np.bincount(units.of_operator)
    assert counts.max() > 1
    assert found == {
        name: unit
        for name, unit in zip(units.graph.names, units.of_operator.tolist(), strict=True)
        if counts[unit] > 1
    }
    type_of = dict(zip(units.graph.names, units.graph.types, strict=True))
    kinds = [listed["type"]["texts"][index] for index in listed["type"]["index"]]
    assert kinds == [type_of[name] for name in listed["name"]]
    named = [shown["type"]["texts"][index] for index in shown["type"]["index"]]
    assert named == [type_of[name] for name in shown["name"]]


def test_the_timeline_ends_at_the_latency(diamond: dict) -> None:
    backend = diamond_backend()
    for shown, placement in zip((SPLIT, SPLIT * 0), diamond["placements"], strict=True):
        assert placement["latency_ms"] == backend.evaluate(shown).latency_ms
        ends = np.array(placement["runs"]["start"]) + placement["runs"]["ms"]
        assert ends.max() == pytest.approx(placement["latency_ms"], rel=1e-3)


def test_transfers_are_those_of_the_simulation(diamond: dict) -> None:
    backend = diamond_backend()
    split, alone = diamond["placements"]
    measured = backend.evaluate(SPLIT)
    assert len(split["transfers"]["unit"]) == measured.n_transfers > 0
    assert sum(split["transfers"]["bytes"]) == measured.transfer_bytes
    assert split["submodels"] == measured.n_submodels
    assert not alone["transfers"]["unit"]


def test_a_test_bed_is_called_one() -> None:
    backend = simulate("synthetic-layered-20", "op", "cpu-testbed")
    data = make_view_data(Scene(backend, (DisplayedPlacement("one", backend.problem.single(0)),)))
    assert data["cautions"] == ["test bed: virtual devices of one CPU, never a claim about a GPU"]


def test_an_edge_states_what_decides_its_transfer() -> None:
    backend = simulate("synthetic-layered-60")
    problem = backend.problem
    data = make_view_data(Scene(backend, (DisplayedPlacement("first", problem.single(0)),)))
    edges, tensors = data["edges"], problem.units.quotient.tensors
    tensor, reader = tensors.readings()
    for source, target, size, count in zip(
        edges["source"], edges["target"], edges["bytes"], edges["tensors"], strict=True
    ):
        mine = tensor[(tensors.source[tensor] == source) & (reader == target)]
        assert (size, count) == (tensors.size_bytes[mine].sum(), len(mine))
    assert sum(edges["tensors"]) == len(reader)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_schedule_can_be_shown(preset: str) -> None:
    backend = simulate("synthetic-layered-20", "op", "cpu+2dgpu", PRESETS[preset])
    mixed = np.arange(backend.problem.n_units) % 3
    data = make_view_data(Scene(backend, (DisplayedPlacement("mixed", mixed),)))
    json.dumps(data, allow_nan=False)
    assert data["placements"][0]["device"] == mixed.tolist()


def test_operators_of_a_unit_without_a_pause_are_one_run() -> None:
    from by_hand import grouped

    units = grouped(op_graph(4, [(0, 1), (1, 2), (2, 3)]), np.array([0, 0, 1, 1]))
    runs = find_runs(units, np.array([0.0, 1.0, 2.0, 5.0]), np.array([1.0, 2.0, 3.0, 6.0]))
    assert runs == {"unit": [0, 1, 1], "start": [0.0, 2.0, 5.0], "ms": [2.0, 1.0, 1.0]}
