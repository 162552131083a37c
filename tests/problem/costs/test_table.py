# White-box tests of problem.costs
"""Cost tables: what they state, refuse and keep in a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import TRANSFER_MS, UNIT_MS, diamond, diamond_costs, diamond_problem
from graphs import TWO_DEVICES, chain

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.graph import Units, contract
from placement_gym.problem.costs import CostTable, analytic
from placement_gym.problem.costs.table import ARRAYS, CostMismatchError

CPU_GPU = ("CPU", "GPU")


def table(**changes: Any) -> CostTable:
    """The diamond's table, with all optional arrays, and some values replaced."""
    size = changes.get("transfer_size", TRANSFER_MS)
    optional = {"repeats": np.ones(len(size), np.int64)}
    return replace(diamond_costs(diamond_problem()), **optional | changes)


def nudged(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array with its last value off the diagonal changed."""
    changed = values.copy()
    at = (0, 1) if values.ndim == 2 else (0,)
    changed[at] = ~changed[at] if changed.dtype == np.bool_ else changed[at] + 1
    return changed


def test_a_saved_table_is_one_file_that_loads_exactly(tmp_path: Path) -> None:
    thirds = table(operator_ms=np.array(UNIT_MS) / 3, host=np.array([True, False]))
    thirds.save(tmp_path / "costs.json")
    assert [path.name for path in tmp_path.iterdir()] == ["costs.json"]
    loaded = CostTable.load(tmp_path / "costs.json")
    assert (loaded.source, loaded.graph) == (thirds.source, thirds.graph)
    assert (loaded.operators, loaded.devices) == (thirds.operators, thirds.devices)
    for name in ARRAYS:
        kept, expected = getattr(loaded, name), getattr(thirds, name)
        assert kept.dtype == expected.dtype
        np.testing.assert_array_equal(kept, expected)
    assert loaded.fingerprint == thirds.fingerprint


def test_an_unknown_unit_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"transfer_unit must be one of MB, ms"):
        table(transfer_unit="GB")


@pytest.mark.parametrize("name", ARRAYS)
def test_the_fingerprint_changes_with_any_number(name: str) -> None:
    before = table()
    assert table(**{name: nudged(getattr(before, name))}).fingerprint != before.fingerprint
    assert table().fingerprint == before.fingerprint


@pytest.mark.parametrize("name", [name for name in ARRAYS if name != "transfer_size"])
def test_an_array_of_wrong_shape_is_refused_by_name(name: str) -> None:
    values = getattr(table(), name)
    for wrong in (values[:-1], np.stack([values, values]), np.concatenate([values, values[:1]])):
        with pytest.raises(ValueError, match=rf"^{name} has shape"):
            table(**{name: wrong})


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize(
    "name", ["operator_ms", "transfer_size", "link_ms", "link_ms_per_size", "submodel_ms"]
)
def test_a_cost_that_is_negative_or_not_finite_is_refused(name: str, bad: float) -> None:
    values = getattr(table(), name).copy()
    values[(0, 1) if values.ndim == 2 else (0,)] = bad
    with pytest.raises(ValueError, match="finite and not negative"):
        table(**{name: values})


def test_negative_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        table(memory_bytes=np.array([100, -1, 100, 100]))


@pytest.mark.parametrize("name", ["link_ms", "link_ms_per_size"])
def test_a_transfer_within_a_device_must_be_free(name: str) -> None:
    with pytest.raises(ValueError, match="diagonal must be zero"):
        table(**{name: np.eye(2)})


MS = np.array(UNIT_MS)
DAMAGES: dict[str, tuple[dict[str, Any], str]] = {
    "without devices": ({"devices": None}, "devices"),
    "of the future": ({"format": 99}, "format is 99"),
    "with nan": ({"operator_ms": (MS * np.nan).tolist()}, "invalid JSON, .* line 1"),
    "of a changed time": ({"operator_ms": (MS + np.eye(4, 2)).tolist()}, "checksum"),
    "of an infinite sum": ({"operator_ms": [[1e308, 1e308]] * 4}, "in their sum"),
    "short of a row": ({"operator_ms": MS[1:].tolist()}, "operator_ms has shape"),
    "transposed": ({"operator_ms": MS.T.tolist()}, "operator_ms has shape"),
}


@pytest.mark.parametrize(("changes", "reason"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_is_refused_with_its_name_and_the_reason(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    values = table().to_json() | changes
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps({key: one for key, one in values.items() if one is not None}))
    with pytest.raises(ValueError, match=rf"damaged\.json is not a valid cost table: .*{reason}"):
        CostTable.load(path)


@pytest.mark.parametrize("text", ["", "not json", "[]", "3", "{}"])
def test_a_file_that_is_no_table_is_refused_with_its_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"other\.json is not a valid cost table"):
        CostTable.load(path)


@pytest.mark.parametrize("devices", [("GPU", "CPU"), ("CPU",), ("CPU", "GPU", "NPU")])
def test_other_devices_table_is_refused_with_both_lists(devices: tuple[str, ...]) -> None:
    table().check(diamond(), CPU_GPU)
    with pytest.raises(CostMismatchError) as refusal:
        table().check(diamond(), devices)
    assert str(list(CPU_GPU)) in str(refusal.value)
    assert str(list(devices)) in str(refusal.value)


def test_another_models_table_is_refused_with_its_name() -> None:
    with pytest.raises(CostMismatchError, match="'by hand'"):
        table().check(chain(4), CPU_GPU)


def test_a_table_whose_rows_are_in_another_order_is_refused() -> None:
    names = diamond().names
    with pytest.raises(CostMismatchError):
        table(operators=names[::-1]).check(diamond(), CPU_GPU)


def test_computed_costs_fit_the_same_operators_under_other_names(tmp_path: Path) -> None:
    graph = diamond()
    analytic(graph, TWO_DEVICES).save(tmp_path / "costs.json")
    costs = CostTable.load(tmp_path / "costs.json")
    devices = tuple(device.name for device in TWO_DEVICES)
    renamed = replace(graph, names=tuple(f"{name}_1" for name in graph.names))
    costs.check(renamed, devices)
    larger = replace(renamed, weight_bytes=graph.weight_bytes + 1)
    for table, other in ((costs, larger), (replace(costs, structure=""), renamed)):
        with pytest.raises(CostMismatchError, match="made for another graph"):
            table.check(other, devices)


def test_a_table_that_lacks_a_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match="transfer_size"):
        SimulatedBackend(diamond_problem(), table(transfer_size=np.array(TRANSFER_MS[:-1])))


def test_units_cost_the_sum_of_operators_and_run_where_all_do() -> None:
    labels = np.array([0, 1, 1, 2])
    units = Units("drawn", diamond(), labels, contract(diamond(), labels))
    supported = np.ones((4, 2), dtype=np.bool_)
    supported[2, 1] = False
    costs = table(supported=supported)
    assert costs.unit_ms(units).tolist() == [[4.0, 1.0], [5.0, 5.0], [1.0, 5.0]]
    assert costs.units_supported(units).tolist() == [[True, True], [True, False], [True, True]]


def test_a_transfer_takes_a_fixed_time_and_one_for_its_size() -> None:
    apart = 1.0 - np.eye(2)
    costs = table(link_ms=3.0 * apart, link_ms_per_size=np.array([[0.0, 2.0], [8.0, 0.0]]))
    assert costs.transfer_ms[0].tolist() == [[0.0, 4.0], [7.0, 0.0]]
    assert costs.transfer_ms[2].tolist() == [[0.0, 3.25], [4.0, 0.0]]


def test_boundary_is_the_way_to_the_host_or_half_to_a_device() -> None:
    np.testing.assert_array_equal(table().boundary_ms[0], [0.0, TRANSFER_MS[0]])
    equals = table(host=np.array([False, False]))
    np.testing.assert_array_equal(equals.boundary_ms[0], [TRANSFER_MS[0] / 2] * 2)
