"""Published workloads: the file format, its costs, and the values of its publication."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from graphs import is_topological
from gymnasium.utils.env_checker import check_env
from published_workloads import DATA
from workload_files import Json, contents, edge, node

from placement_gym.base import IntArray, UserError
from placement_gym.hardware import DeviceSpec, parse_counts
from placement_gym.problem.costs import PRESETS, Workload
from placement_gym.schedules import Simulator

SIX_DIGITS = 5e-6
ACC, ACCS = DeviceSpec("ACC"), (DeviceSpec("ACC.0"), DeviceSpec("ACC.1"))
CPU = DeviceSpec("CPU")


def row_of_three() -> Json:
    """7 -> 3 -> 9, the CPU ten times slower."""
    nodes = [node(9, 30.0, 3.0), node(7, 10.0, 1.0), node(3, 20.0, 2.0)]
    return contents(nodes, [edge(3, 9, 0.25), edge(7, 3)])


def coloured(*colours: str) -> Json:
    """A row of nodes 0 -> 1 -> ... in colour classes, ``"-"`` being none."""
    nodes = [node(i, colorClass=ord(c)) if c != "-" else node(i) for i, c in enumerate(colours)]
    return contents(nodes, [edge(i, i + 1) for i in range(len(colours) - 1)])


def workload(values: Json) -> Workload:
    return Workload.from_dict(values, "by hand")


def make(path: Path, **kwargs: Any) -> Any:
    return gym.make("DevicePlacementSim-v0", model=str(path), **kwargs).unwrapped


def latency_of(env: Any, *action: int) -> float:
    env.reset()
    return float(env.step(np.array(action))[4]["latency_ms"])


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(values: Any) -> Path:
        path = tmp_path / "made-up.json"
        path.write_text(values if isinstance(values, str) else json.dumps(values))
        return path

    return written


def test_nodes_come_in_topological_order_with_their_own_figures() -> None:
    read = workload(row_of_three())
    assert read.graph.names == ("7", "3", "9")
    assert read.graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert read.host_ms.tolist() == [10.0, 20.0, 30.0]
    assert read.accelerator_ms.tolist() == [1.0, 2.0, 3.0]
    assert read.transfer_ms.tolist() == [0.5, 0.25]
    assert (read.n_accelerators, read.accelerator_bytes) == (2, 250)


def fork() -> Json:
    return contents([node(0), node(1), node(2)], [edge(0, 1), edge(0, 2)])


def test_a_node_sends_one_tensor_to_all_its_readers() -> None:
    tensors = workload(fork()).graph.tensors
    assert (tensors.source.tolist(), tensors.readers.tolist()) == ([0], [1, 2])
    assert tensors.size_bytes.tolist() == [1000]


def test_a_cost_is_one_way_to_the_hosts_memory() -> None:
    costs = workload(row_of_three()).costs((CPU, DeviceSpec("CPU.1"), *ACCS))
    cost = 0.5 * np.array([[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 2], [1, 1, 2, 0]])
    np.testing.assert_array_equal(costs.transfer_ms[0], cost)
    assert costs.operator_ms[1].tolist() == [20.0, 20.0, 2.0, 2.0]
    assert costs.host.tolist() == [True, True, False, False]


def test_published_x1000_makes_transfers_a_thousand_times_longer() -> None:
    plain, longer = (
        workload(row_of_three()).costs((CPU, ACC), source)
        for source in ("published", "published-x1000")
    )
    np.testing.assert_array_equal(longer.transfer_ms, 1000 * plain.transfer_ms)
    np.testing.assert_array_equal(longer.operator_ms, plain.operator_ms)
    assert (plain.source, longer.source) == ("published", "published-x1000")


def test_colour_classes_are_units_and_colourless_nodes_alone() -> None:
    read = workload(coloured("a", "a", "-", "-", "b"))
    assert read.units().of_operator.tolist() == [0, 0, 1, 2, 3]
    assert read.units("op").of_operator.tolist() == [0, 1, 2, 3, 4]


def test_units_of_colours_are_numbered_topologically_if_possible() -> None:
    nodes = [node(0, colorClass=1), node(1, colorClass=2), node(2, colorClass=1)]
    units = workload(contents(nodes, [edge(1, 2)])).units()
    assert is_topological(units.quotient.edge_index)


@pytest.mark.filterwarnings("ignore:.*Box observation space (min|max)imum value is")
def test_colours_in_a_circle_can_be_placed(write: Any) -> None:
    path = write(coloured("a", "b", "a"))
    env = make(path, devices="1cpu+1acc")
    assert env.problem.n_units == 2
    check_env(env, skip_render_check=True)
    assert latency_of(env, 0, 0) == pytest.approx(30.0)
    assert latency_of(env, 0, 1) == pytest.approx(10.0 + 0.5 + 1.0 + 0.5 + 10.0)
    assert latency_of(env, 1, 1) == pytest.approx(3.0)
    assert latency_of(make(path, devices="1cpu+1acc", schedule="serial"), 0, 1) == 22.0


def test_accelerator_refuses_a_class_with_an_unsupported_node(write: Any) -> None:
    values = coloured("a", "b", "a", "c")
    values["nodes"][2]["supportedOnFpga"] = 0
    env = make(write(values), devices="1cpu+1acc")
    assert env.action_masks().reshape(-1, 2).tolist() == [[True, False], [True, True], [True, True]]
    env.reset()
    assert not env.step(np.array([1, 0, 0]))[4]["feasible"]
    assert env.step(np.array([0, 1, 1]))[4]["feasible"]


def test_published_devices_are_a_cpu_and_limited_accelerators(write: Any) -> None:
    env = make(write(row_of_three()))
    assert env.problem.device_names == ("CPU", "ACC.0", "ACC.1")
    assert env.problem.limits_bytes.tolist() == [np.inf, 250.0, 250.0]
    env.reset()
    assert not env.step(np.array([1, 1, 1]))[4]["feasible"]
    assert env.step(np.array([1, 1, 2]))[4]["feasible"]
    assert env.step(np.array([0, 0, 0]))[4]["feasible"]


def test_a_workload_is_scheduled_as_a_list_unless_told_otherwise(write: Any) -> None:
    path = write(fork())
    assert latency_of(make(path), 1, 1, 2) == pytest.approx(1.0 + 2 * 0.5 + 1.0)
    assert latency_of(make(path, schedule="serial"), 1, 1, 2) == pytest.approx(3.0 + 2 * 0.5)


def test_counts_are_devices_that_hold_a_share_of_all_memory(write: Any) -> None:
    env = make(write(row_of_three()), devices="1cpu+2acc@0.3")
    assert env.problem.device_names == ("CPU", "ACC.0", "ACC.1")
    assert env.problem.limits_bytes.tolist() == pytest.approx([np.inf, 90.0, 90.0])
    unlimited = make(write(row_of_three()), devices="2cpu+1acc")
    assert unlimited.problem.device_names == ("CPU.0", "CPU.1", "ACC.0")
    assert not unlimited.problem.limited
    assert parse_counts("cpu+dgpu") is None


@pytest.mark.parametrize("counts", ["0cpu+0acc", "1cpu+1acc@1.5", "1cpu+1acc@0.3.1"])
def test_counts_that_make_no_devices_are_refused(counts: str, write: Any) -> None:
    with pytest.raises(ValueError):
        make(write(row_of_three()), devices=counts)


def row_without(key: str) -> Json:
    return {name: value for name, value in row_of_three().items() if name != key}


def nodes_without(key: str) -> Json:
    values = row_of_three()
    del values["nodes"][1][key]
    return values


def pair(edges: list[Json] | None = None, **second: Any) -> Json:
    """Two nodes, the second with other fields."""
    return contents([node(0), node(1) | second], [edge(0, 1)] if edges is None else edges)


MALFORMED: dict[str, Any] = {
    "empty file": "",
    "not JSON": "nodes: 3",
    "a list": [],
    **{f"no {key}": row_without(key) for key in ("nodes", "edges", "maxFPGAs", "maxSizePerFPGA")},
    **{f"a node without {key}": nodes_without(key) for key in node(0)},
    "no node": contents([], []),
    "an edge without cost": pair([{"sourceId": 0, "destId": 1}]),
    "a cycle": pair([edge(0, 1), edge(1, 0)]),
    "a loop": pair([edge(0, 1), edge(1, 1)]),
    "a foreign node": pair([edge(0, 2)]),
    "an id twice": pair([], id=0),
    "costs that differ": contents([node(0), node(1), node(2)], [edge(0, 1), edge(0, 2, 9.0)]),
    "a latency in words": pair(cpuLatency="long"),
    "a latency of null": pair(fpgaLatency=None),
    "a negative latency": pair(cpuLatency=-1.0),
    "an infinite size": pair(size=float("inf")),
    "a negative size": pair(size=-100.0),
}


@pytest.mark.parametrize("values", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_file_is_refused_with_its_name(values: Any, write: Any) -> None:
    with pytest.raises(UserError, match=r"made-up\.json"):
        make(write(values))


def published(name: str) -> Workload:
    return Workload.load(DATA / f"{name}.json")


def expert_split(read: Workload, name: str) -> IntArray:
    """(n,) device of each node in a published split: CPU cores first, then accelerators."""
    split = json.loads((DATA / f"human-experts/{name}_expert.json").read_text())
    parts = (*split["cpus"], *split["fpgas"])
    device = {str(key): number for number, part in enumerate(parts) for key in part["nodes"]}
    return np.array([device[key] for key in read.graph.names])


def published_ms(read: Workload, schedule: str, placement: IntArray, n_accelerators: int) -> float:
    devices = parse_counts(f"1cpu+{n_accelerators}acc")
    simulator = Simulator(read.units("op"), read.costs(devices), PRESETS[schedule])
    return simulator.latency_ms(placement.astype(np.uint8))


@pytest.mark.parametrize(
    ("name", "one_accelerator_ms", "bound_ms"),
    [
        ("LayerGraphs/bert24_inference", 92.406, 15.40),
        ("LayerGraphs/bert24_training", 217.813, 36.30),
        ("LayerGraphs/resnet50_inference", 201.45, 33.58),
        ("LayerGraphs/resnet50_training", 462.381, 77.06),
        ("OperatorGraphs/bert_l-3_inference", 49.3526, 16.45),
        ("OperatorGraphs/bert_l-3_training", 122.987, 41.00),
        ("OperatorGraphs/resnet50_inference", 325.132, 54.19),
    ],
)
def test_throughput_of_one_accelerator_is_the_published(
    name: str, one_accelerator_ms: float, bound_ms: float
) -> None:
    read = published(f"throughput-inputs/{name}")
    everything = np.ones(len(read.graph), dtype=np.int64)
    load_ms = published_ms(read, "tarnawski-throughput", everything, 1)
    assert load_ms == pytest.approx(one_accelerator_ms, rel=SIX_DIGITS)
    assert load_ms / read.n_accelerators == pytest.approx(bound_ms, abs=0.0051)


@pytest.mark.parametrize(
    ("kind", "name", "n_accelerators", "published_split_ms"),
    [
        ("throughput", "bert24_inference", 6, 20.084),
        ("throughput", "bert24_training", 6, 49.4049),
        ("throughput", "resnet50_inference", 6, 43.9183),
        ("latency", "bert24_inference", 6, 111.937),
    ],
)
def test_splits_of_the_experts_take_what_is_published(
    kind: str, name: str, n_accelerators: int, published_split_ms: float
) -> None:
    read = published(f"{kind}-inputs/LayerGraphs/{name}")
    split = expert_split(read, name)
    found = published_ms(read, f"tarnawski-{kind}", split, n_accelerators)
    assert found == pytest.approx(published_split_ms, rel=SIX_DIGITS)


@pytest.mark.parametrize("name", ["bert24_inference", "resnet50_inference"])
def test_x1000_turns_throughput_transfers_into_latency_ones(name: str) -> None:
    throughput, latency = (
        published(f"{kind}-inputs/LayerGraphs/{name}") for kind in ("throughput", "latency")
    )
    assert throughput.graph.names == latency.graph.names
    scaled = throughput.costs((CPU, ACC), "published-x1000").transfer_ms
    np.testing.assert_allclose(scaled, latency.costs((CPU, ACC)).transfer_ms, rtol=1e-9)


def test_colours_of_a_training_graph_tie_both_passes_together() -> None:
    read = published("throughput-inputs/LayerGraphs/bert24_training")
    backward = np.array([kind == "Backward" for kind in read.graph.types])
    passes = np.stack([read.colours, backward])
    assert len(read.units()) == 32
    assert len(np.unique(passes, axis=1).T) == 64


def test_a_published_workload_is_a_model_of_the_env() -> None:
    path = DATA / "throughput-inputs/LayerGraphs/bert24_training.json"
    env = make(path, objective="throughput")
    start_ms = env.reset()[1]["latency_ms"]
    assert start_ms == pytest.approx(Workload.load(path).host_ms.sum())
    assert latency_of(env, *[1] * 32) == pytest.approx(217.813, rel=SIX_DIGITS)
