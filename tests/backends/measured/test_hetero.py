# White-box tests of backends.measured
from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import openvino as ov
import pytest
from fakes import assignment
from graphs import problem_on
from openvino import opset13 as ops
from testbed import (
    CHESSBOARD,
    N_TINY,
    TINY_SPLITS,
    halves,
    known_model,
    known_problem,
    make,
    outputs,
    placement,
    plain_outputs,
    step,
    worst_relative,
)

import placement_gym
from placement_gym.backends.measured import HeteroPartition, compile_partition, set_affinities
from placement_gym.backends.measured.hetero import count_submodels
from placement_gym.base import CompileError
from placement_gym.envs import DevicePlacementEnv
from placement_gym.graph import OpGraph, extract
from placement_gym.hardware import TESTBED
from placement_gym.models import load_model, prepare
from placement_gym.problem import Placement
from placement_gym.workloads import sample_inputs

PLAIN = {"INFERENCE_PRECISION_HINT": "f32"}


def bert_splits() -> list[list[int]]:
    n = known_problem("bert-8").n_units
    rng = np.random.default_rng(0)
    starts = np.repeat(rng.integers(0, 2, 8), -(-n // 8))[:n]
    single_moves = [(np.arange(n) == unit).astype(int) for unit in (n // 3, n // 2)]
    window = (np.abs(np.arange(n) - n // 2) < n // 5).astype(int)
    return [
        list(map(int, a)) for a in (halves("bert-8"), starts, window, *single_moves,
                                    rng.integers(0, 2, n))
    ]  # fmt: skip


@cache
def alias_env() -> DevicePlacementEnv:
    """The toy, whose single devices are measured once for all placements."""
    return make(split="alias")


@pytest.mark.parametrize("placed", TINY_SPLITS, ids=str)
def test_aliases_give_tiny_the_expected_submodels(placed: list[int]) -> None:
    info = step(alias_env(), placed)
    assert (info["error"], info["n_submodels"]) == ("", info["n_submodels_expected"])


@pytest.mark.parametrize(
    ("placed", "expected"),
    [([0] * N_TINY, 1), ([1, 0, 0, 0, 0, 0, 0], 2), ([0, 1, 1, 0, 0, 0, 0], 4)],
    ids=["one-device", "prefix", "two-branches-apart"],
)
def test_the_expected_count_is_right_by_hand(placed: list[int], expected: int) -> None:
    assert step(alias_env(), placed)["n_submodels"] == expected


@pytest.mark.parametrize(
    "index", [pytest.param(index, marks=pytest.mark.slow) for index in range(6)]
)
def test_aliases_give_bert_the_expected_submodels_and_outputs(index: int) -> None:
    placed = bert_splits()[index]
    compiled = placement_gym.compile_model(
        ov.Core(), known_model("bert-8"), placement("bert-8", placed), split="alias"
    )
    graph = known_problem("bert-8").units.graph
    units = known_problem("bert-8").units.of_operator
    partition = HeteroPartition.from_assignment(
        graph, assignment(placed)[units], TESTBED, alias=True
    )
    assert partition.n_submodels > 1
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == partition.n_submodels
    found = outputs(compiled, known_model("bert-8"))
    assert worst_relative(found, plain_outputs("bert-8")) < 1e-4


def make_apart() -> ov.Model:
    """Two operators that nothing connects."""
    inputs = [ops.parameter([1, 4], np.float32, name=name) for name in "ab"]
    return ov.Model([ops.relu(x, name=f"relu{i}") for i, x in enumerate(inputs)], inputs, "apart")


@pytest.mark.parametrize("make", [make_apart, partial(load_model, "tiny")])
def test_a_device_alone_is_compiled_for_itself(make: Callable[[], ov.Model]) -> None:
    model = load_model(make())
    graph = extract(model)
    partition = HeteroPartition.from_assignment(
        graph, np.zeros(len(graph), np.int64), TESTBED, alias=True
    )
    compiled = compile_partition(ov.Core(), model, graph, partition)
    assert "HETERO_NUMBER_OF_SUBMODELS" not in compiled.get_property("SUPPORTED_PROPERTIES")
    assert compiled.get_property("INFERENCE_NUM_THREADS") == 1
    assert count_submodels(compiled) == partition.n_submodels == 1


@pytest.mark.parametrize("split", ["alias", "hetero", "auto"])
@pytest.mark.parametrize("placed", [[1, 0, 0, 0, 0, 0, 0], CHESSBOARD], ids=["prefix", "chess"])
def test_a_compiled_placement_computes_what_the_plain_model_does(
    placed: list[int], split: str
) -> None:
    model = known_model("tiny")
    compiled = placement_gym.compile_model(ov.Core(), model, placement("tiny", placed), split=split)
    assert worst_relative(outputs(compiled, model), plain_outputs("tiny")) < 1e-4


@pytest.mark.parametrize("placed", TINY_SPLITS, ids=str)
def test_compiled_placement_runs_on_the_devices_it_names(placed: list[int]) -> None:
    wanted = {TESTBED[device].name for device in placed}
    for split, name_of in (
        ("hetero", str),
        ("alias", lambda name: re.sub(r"_ALIAS\d+$", "", name)),
    ):
        compiled = placement_gym.compile_model(
            ov.Core(), known_model("tiny"), placement("tiny", placed), split=split
        )
        running = compiled.get_property("EXECUTION_DEVICES")
        assert {name_of(name) for name in running} == wanted


def test_compiling_leaves_the_model_as_it_is() -> None:
    model = load_model("tiny")
    names = [node.get_friendly_name() for node in model.get_ordered_ops()]
    placement_gym.compile_model(ov.Core(), model, placement("tiny", CHESSBOARD))
    assert [node.get_friendly_name() for node in model.get_ordered_ops()] == names
    assert not any("affinity" in node.get_rt_info() for node in model.get_ordered_ops())


def test_compiling_takes_further_properties() -> None:
    compiled = placement_gym.compile_model(
        ov.Core(), known_model("tiny"), placement("tiny", CHESSBOARD), config={"PERF_COUNT": True}
    )
    request = compiled.create_infer_request()
    request.infer(dict(enumerate(sample_inputs(known_model("tiny")))))
    assert any(entry.real_time.total_seconds() > 0 for entry in request.profiling_info)


def test_a_node_without_a_device_is_an_error() -> None:
    graph = extract(known_model("tiny"), "folded")
    partition = HeteroPartition.from_assignment(
        graph, np.zeros(len(graph), dtype=np.int64), TESTBED, alias=False
    )
    stranger = load_model("tiny")
    stranger.get_ordered_ops()[-2].set_friendly_name("renamed")
    with pytest.raises(CompileError, match="renamed"):
        set_affinities(stranger, graph, partition)


def affinities(model: ov.Model) -> dict[str, str]:
    """Node name -> the device that was set."""
    nodes = model.get_ordered_ops()
    return {n.get_friendly_name(): n.get_rt_info()["affinity"].astype(str) for n in nodes}


def partition_of(graph: OpGraph, device_of: dict[str, int]) -> HeteroPartition:
    """Operators on the devices named, all others on the first one."""
    devices = assignment([device_of.get(name, 0) for name in graph.names])
    return HeteroPartition.from_assignment(graph, devices, TESTBED, alias=False)


def test_a_parameter_goes_with_its_first_reader() -> None:
    values = ops.parameter((1, 8), np.float32, name="values")
    early = ops.relu(values, name="early")
    late = ops.add(early, values, name="late")
    model = prepare(ov.Model([ops.result(late)], [values], "two-readers"))
    graph = extract(model, "folded")
    set_affinities(model, graph, partition_of(graph, {"early": 1}))
    found = affinities(model)
    assert (found["early"], found["late"], found["values"]) == ("CPU_FAST", "CPU", "CPU_FAST")


def test_static_values_lie_where_their_readers_are() -> None:
    values = ops.parameter((1, 8), np.float32, name="values")
    shared = ops.constant(np.ones((1, 8), np.float16), name="shared")
    first = ops.relu(values, name="first")
    second = ops.add(first, ops.convert(shared, "f32", name="one"), name="second")
    third = ops.multiply(second, ops.convert(shared, "f32", name="other"), name="third")
    model = prepare(ov.Model([ops.result(third)], [values], "compressed"))
    graph = extract(model, "folded")
    set_affinities(model, graph, partition_of(graph, {"third": 1}))
    found = affinities(model)
    read = 0
    for node in model.get_ordered_ops():
        for port in node.inputs():
            source = port.get_source_output().get_node()
            if source.get_type_name() in ("Constant", "Convert"):
                read += 1
                assert found[source.get_friendly_name()] == found[node.get_friendly_name()]
    assert read == 4


def make_cycles() -> ov.Model:
    """Two detours in a row; a constant is read before and after each, as in openvino #35750."""
    x = values = ops.parameter((1, 8), np.float32, name="values")
    shared = ops.constant(np.full((1, 8), 0.5, np.float32), name="shared")
    sides = []
    for number in range(2):
        start = ops.relu(x, name=f"start{number}")
        sides.append(ops.multiply(start, shared, name=f"side{number}"))
        x = ops.multiply(ops.exp(start, name=f"detour{number}"), shared, name=f"end{number}")
    results = [ops.result(one, name=f"out{number}") for number, one in enumerate([x, *sides])]
    return prepare(ov.Model(results, [values], "cycles"))


@pytest.mark.parametrize("split", ["alias", "hetero", "affinities alone"])
def test_a_constant_that_closes_a_cycle_is_cut_where_we_predict(split: str) -> None:
    """HETERO of 2026.2 fails on affinities alone ("Cannot sort subgraphs!").

    It takes our placements, in which every submodel has its own copy of the constant.
    """
    core, model = ov.Core(), make_cycles()
    problem = problem_on(extract(model, "folded"), TESTBED, "op")
    placed = assignment(["detour" in name for name in problem.units.names])
    if split == "affinities alone":
        core.register_plugin("openvino_intel_cpu_plugin", "CPU_FAST")
        marked = model.clone()
        for node in marked.get_ops():
            away = "detour" in node.get_friendly_name()
            node.get_rt_info()["affinity"] = "CPU_FAST" if away else "CPU"
        compiled = core.compile_model(marked, "HETERO:CPU,CPU_FAST", PLAIN)
    else:
        compiled = placement_gym.compile_model(
            core, model, Placement.from_assignment(problem, placed), split
        )
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == problem.count_submodels(placed)
    assert problem.count_submodels(placed) == 5
    plain = outputs(ov.Core().compile_model(model, "CPU", PLAIN), model)
    assert worst_relative(outputs(compiled, model), plain) < 1e-4


class UnfaithfulCore(ov.Core):
    """Compiles everything for the first device, whatever the affinities say."""

    def compile_model(self, model: Any, device_name: Any = None, config: Any = None) -> Any:
        for node in model.get_ordered_ops():
            node.get_rt_info()["affinity"] = "CPU"
        return super().compile_model(model, device_name, config)


def test_a_placement_that_does_not_run_where_it_says_is_an_error() -> None:
    model = known_model("tiny")
    graph = extract(model, "folded")
    partition = partition_of(graph, {graph.names[-2]: 1})
    with pytest.raises(CompileError, match="HETERO runs on"):
        compile_partition(UnfaithfulCore(), model, graph, partition)
