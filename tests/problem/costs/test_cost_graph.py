"""Graphs of one's own: by hand, from networkx and from files, and what is refused."""

from __future__ import annotations

import json
import pickle
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import networkx as nx
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from placement_gym.base import UserError
from placement_gym.problem.costs import CostGraph
from placement_gym.solvers import serial_program

DIAMOND: dict[str, Any] = {
    "ms": [[4, 1], [4, 2], [8, 1], [4, np.inf]],
    "edges": [[0, 1], [0, 2], [1, 3], [2, 3]],
    "edge_bytes": [8e6, 8e6, 4e6, 2e6],
    "devices": ["CPU", {"name": "FAST", "memory_bytes": 40}],
    "gb_per_s": 8,
    "link_ms": 0.25,
    "memory_bytes": [30, 10, 10, 10],
}
"""Unit 3 cannot run on FAST, which holds 40 of 60 bytes."""


def made(**changes: Any) -> CostGraph:
    return CostGraph(**DIAMOND | changes)


def open_env(model: Any, **kwargs: Any) -> Any:
    return gym.make("DevicePlacementSim-v0", model=model, **kwargs).unwrapped


def place(env: Any, *devices: int) -> dict[str, Any]:
    env.reset()
    info: dict[str, Any] = env.step(np.array(devices))[4]
    return info


@pytest.mark.parametrize(
    ("kwargs", "expected_ms"),
    [
        # 1, then 2 on FAST and the transfers to the CPU: of unit 1 after 3 ms, .25 + .5 ms
        ({}, 1 + 1.25 + 8 + 4),
        ({"schedule": "serial"}, 1 + 1.25 + 2 + 8 + 0.75 + 4),
        ({"schedule": {"schedule": "event", "op_gap_ms": 1.0}}, 1 + 1.25 + 8 + 1 + 4 + 1),
        ({"objective": "throughput"}, 12.0),
    ],
)
def test_latencies_follow_from_times_and_links(kwargs: Any, expected_ms: float) -> None:
    assert place(open_env(made(), **kwargs), 1, 1, 0, 0)["latency_ms"] == pytest.approx(expected_ms)


def test_edges_of_equal_bytes_carry_one_tensor() -> None:
    tensors = made().graph.tensors
    assert tensors.source.tolist() == [0, 1, 2]
    assert tensors.offsets.tolist() == [0, 2, 3, 4]
    serial = {"schedule": "serial", "devices": ["CPU", "FAST"]}
    both = place(open_env(made(), **serial), 0, 1, 1, 0)["latency_ms"]
    assert both == pytest.approx(4 + 1.25 + 2 + 1 + 0.75 + 0.5 + 4)
    apart = made(edge_bytes=[8e6, 6e6, 4e6, 2e6])
    assert apart.graph.tensors.port.tolist() == [0, 1, 0, 0]
    assert place(open_env(apart, **serial), 0, 1, 1, 0)["latency_ms"] == pytest.approx(both + 1)


def test_limits_and_devices_that_cannot_run_a_unit_are_kept() -> None:
    env = open_env(made())
    assert env.problem.supported.tolist() == [[True, True]] * 3 + [[True, False]]
    assert env.cost_table().operator_ms[3].tolist() == [4.0, 4.0]  # as slow as on the CPU
    assert not place(env, 0, 0, 0, 1)["feasible"]
    assert not place(env, 1, 1, 1, 0)["feasible"]
    assert place(open_env(made(), devices=["CPU", "FAST"]), 1, 1, 1, 0)["feasible"]
    assert place(open_env(made(), devices=["CPU"]), 0, 0, 0, 0)["latency_ms"] == 20.0


def test_links_may_differ_by_direction() -> None:
    env = open_env(made(gb_per_s=[[1, 4], [np.inf, 1]], link_ms=0), schedule="serial")
    assert place(env, 0, 1, 0, 0)["latency_ms"] == pytest.approx(4 + 2 + 2 + 8 + 4)


@pytest.mark.filterwarnings("ignore:.*Box observation space (min|max)imum value is")
def test_it_is_a_problem_as_any_other() -> None:
    env = open_env(made())
    check_env(env, skip_render_check=True)
    copy = pickle.loads(pickle.dumps(env))
    assert place(copy, 1, 1, 0, 0)["latency_ms"] == place(env, 1, 1, 0, 0)["latency_ms"]
    by_unit = gym.make("DevicePlacementPerUnitSim-v0", model=made()).unwrapped
    assert by_unit.reset()[1]["reference_ms"] == 20.0
    solved = serial_program(env.problem, env.cost_table()).assignment
    assert solved is not None
    serial = open_env(made(), schedule="serial")
    every = (place(serial, *devices) for devices in product((0, 1), repeat=4))
    least_ms = min(info["latency_ms"] for info in every if info["feasible"])
    assert place(serial, *solved)["latency_ms"] == pytest.approx(least_ms)


def test_a_file_is_the_same_problem(tmp_path: Path) -> None:
    path = tmp_path / "diamond.json"
    made(name="diamond").save(path)
    envs = [open_env(made(name="diamond")), open_env(str(path))]
    graphs = [env.problem.units.graph for env in envs]
    assert [graph.model for graph in graphs] == ["diamond"] * 2
    assert len({graph.fingerprint() for graph in graphs}) == 1
    assert len({env.cost_table().fingerprint for env in envs}) == 1
    assert len({env.simulated.semantics for env in envs}) == 1
    assert envs[0].problem.devices == envs[1].problem.devices


def test_a_networkx_graph_is_sorted_and_named() -> None:
    graph = nx.DiGraph(name="pair")
    graph.add_node("last", ms=[1, 2])
    graph.add_node("first", ms={"FAST": 3.0}, bytes=5)
    graph.add_edge("first", "last", bytes=1e6)
    read = CostGraph.from_networkx(graph, devices=["CPU", "FAST"], gb_per_s=1)
    assert (read.name, read.names) == ("pair", ("first", "last"))
    assert read.ms.tolist() == [[np.inf, 3.0], [1.0, 2.0]]
    assert read.memory_bytes.tolist() == [5, 0]
    assert read.edges.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ({"ms": [1, 2]}, [(0, 1), (1, 0)], "without a cycle"),
        ({}, [(0, 1)], "one has no 'ms'"),
        ({"ms": [1, 2]}, [(0, 1)], "one has no 'bytes'"),
        ({"ms": {"cpu": 1}}, [], "cannot be 'cpu'; did you mean 'CPU'"),
        ({"ms": [1]}, [], r"ms has shape \(2, 1\), not \(n, 2\)"),
    ],
)
def test_networkx_graphs_that_are_refused(nodes: Any, edges: Any, message: str) -> None:
    graph = nx.DiGraph(edges)
    graph.add_nodes_from([0, 1], **nodes)
    with pytest.raises(UserError, match=message):
        CostGraph.from_networkx(graph, devices=["CPU", "FAST"], gb_per_s=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ms": [[1, 2, 3]]}, r"ms has shape \(1, 3\), not \(n, 2\)"),
        ({"ms": [[1, 2], [1]]}, "ms must be rows of numbers"),
        ({"ms": [[1, -2]] * 4}, "ms must be numbers from 0 to inf, not -2"),
        ({"ms": [[1, np.nan]] * 4}, "ms must be numbers from 0 to inf, not nan"),
        ({"ms": []}, "ms has no rows"),
        ({"edges": [[0, 1], [0, 2], [3, 1], [2, 3]]}, "unit 1 reads unit 3"),
        ({"edges": [[0, 4]] * 4}, "edges must be numbers from 0 to 3, not 4"),
        ({"edge_bytes": [1, 2]}, r"edge_bytes has shape \(2,\), not \(4,\)"),
        ({"gb_per_s": 0}, "gb_per_s must be above 0"),
        ({"link_ms": np.inf}, "link_ms must be numbers from 0 to .*, not inf"),
        ({"memory_bytes": [1e30] * 4}, "memory_bytes must be numbers from 0"),
        ({"names": ["a", "b", "c", "c"]}, "names must be distinct"),
        ({"devices": ["CPU", "CPU"]}, "'CPU' is named twice"),
    ],
)
def test_arrays_that_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        made(**changes)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"devices": ["CPU", "GPU"]}, "a device of 'graph' cannot be 'GPU'.* one of CPU, FAST"),
        ({"granularity": "fused"}, "must be one of colocated, op"),
        ({"shapes": "x[1]"}, r"CostGraph\('graph'\) is a graph alone"),
        ({"costs": "published"}, "costs must be one of own, a CostTable or its file"),
    ],
)
def test_arguments_that_do_not_fit(kwargs: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_env(made(), **kwargs)


def test_it_cannot_be_measured(tmp_path: Path) -> None:
    made().save(tmp_path / "own.json")
    for model in (made(), str(tmp_path / "own.json")):
        with pytest.raises(UserError, match="can only be simulated"):
            gym.make("DevicePlacement-v0", model=model, devices="cpu-testbed")


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(made().to_json() | {"format": 2}))
    with pytest.raises(UserError, match="its format is 2, this version reads 1"):
        open_env(str(path))


def test_a_table_in_memory_is_as_its_file(tmp_path: Path) -> None:
    table = open_env("tiny").cost_table()
    table.save(tmp_path / "costs.json")
    in_memory, read = (
        open_env("tiny", costs=costs).cost_table() for costs in (table, tmp_path / "costs.json")
    )
    assert in_memory is table
    assert read.fingerprint == table.fingerprint
