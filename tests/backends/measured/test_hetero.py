from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openvino as ov
import pytest
from fakes import assignment
from foreign_models import make_chain
from graphs import problem_on
from numpy.typing import NDArray
from openvino import opset13 as ops
from testbed import (
    CHESSBOARD,
    N_TINY,
    TINY_SPLITS,
    halves,
    known_model,
    known_problem,
    make,
    needs_bf16,
    needs_two_cores,
    outputs,
    placement,
    plain_outputs,
    step,
    worst_relative,
)

import placement_gym
from placement_gym import DeviceSpec, Placement, PlacementMismatchError
from placement_gym.backends.measured.hetero import (
    HeteroPartition,
    alias_device,
    check_cards,
    compile_partition,
    set_affinities,
)
from placement_gym.base.errors import CompileError
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.graph.extract import extract
from placement_gym.graph.operators import OpGraph
from placement_gym.hardware.devices import TESTBED
from placement_gym.models import load, prepare
from placement_gym.workloads.samples import sample_inputs

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


@cache
def wide_chain() -> tuple[ov.Model, list[NDArray[Any]]]:
    """A model with enough work for two threads, and its outputs."""
    model = load(make_chain(n_layers=4, channels=64, size=56))
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return model, outputs(compiled, model)


def compile_halves(devices: tuple[DeviceSpec, ...], split: str) -> ov.CompiledModel:
    """The wide chain, its first half on the first device and its second half on the other."""
    model = wide_chain()[0]
    problem = make(model, devices, granularity="op").problem
    placed = np.arange(problem.n_units) >= problem.n_units // 2
    compiled = placement_gym.compile_model(
        ov.Core(), model, Placement.of(problem, assignment(placed)), split=split
    )
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == 2
    return compiled


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
    partition = HeteroPartition.of(graph, assignment(placed)[units], TESTBED, alias=True)
    assert partition.n_submodels > 1
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == partition.n_submodels
    found = outputs(compiled, known_model("bert-8"))
    assert worst_relative(found, plain_outputs("bert-8")) < 1e-4


@pytest.mark.parametrize("split", ["alias", "hetero", "auto"])
@pytest.mark.parametrize("placed", [[1, 0, 0, 0, 0, 0, 0], CHESSBOARD], ids=["prefix", "chess"])
def test_a_compiled_placement_computes_what_the_plain_model_does(
    placed: list[int], split: str
) -> None:
    model = known_model("tiny")
    compiled = placement_gym.compile_model(ov.Core(), model, placement("tiny", placed), split=split)
    assert worst_relative(outputs(compiled, model), plain_outputs("tiny")) < 1e-4


@pytest.mark.parametrize("placed", TINY_SPLITS, ids=str)
def test_compiled_placement_runs_on_the_devices_it_names(
    placed: list[int],
) -> None:
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


def test_a_placement_that_was_saved_compiles_on_a_fresh_core(tmp_path: Path) -> None:
    placement("tiny", CHESSBOARD).save(tmp_path / "placement.json")
    loaded = Placement.load(tmp_path / "placement.json")
    compiled = placement_gym.compile_model(ov.Core(), known_model("tiny"), loaded)
    assert worst_relative(outputs(compiled, known_model("tiny")), plain_outputs("tiny")) < 1e-4


def test_compiling_leaves_the_model_as_it_is() -> None:
    model = load("tiny")
    names = [node.get_friendly_name() for node in model.get_ordered_ops()]
    placement_gym.compile_model(ov.Core(), model, placement("tiny", CHESSBOARD))
    assert [node.get_friendly_name() for node in model.get_ordered_ops()] == names
    assert not any("affinity" in node.get_rt_info() for node in model.get_ordered_ops())


def test_compiling_takes_further_properties() -> None:
    compiled = placement_gym.compile_model(
        ov.Core(),
        known_model("tiny"),
        placement("tiny", CHESSBOARD),
        config={"PERF_COUNT": True},
    )
    request = compiled.create_infer_request()
    request.infer(dict(enumerate(sample_inputs(known_model("tiny")))))
    assert any(entry.real_time.total_seconds() > 0 for entry in request.profiling_info)


def test_a_placement_for_another_model_is_refused() -> None:
    for model in (known_model("resnet"), load("tiny-fp16")):
        with pytest.raises(PlacementMismatchError, match="made for model 'tiny'"):
            placement_gym.compile_model(ov.Core(), model, placement("tiny", CHESSBOARD))


def test_a_node_without_a_device_is_an_error() -> None:
    graph = extract(known_model("tiny"), "folded")
    partition = HeteroPartition.of(
        graph, np.zeros(len(graph), dtype=np.int64), TESTBED, alias=False
    )
    stranger = load("tiny")
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
    return HeteroPartition.of(graph, devices, TESTBED, alias=False)


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
        compiled = placement_gym.compile_model(core, model, Placement.of(problem, placed), split)
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


@pytest.mark.parametrize(("second", "refused"), [("GPU.1", False), ("GPU.0", True)])
def test_submodels_that_report_another_gpu_are_an_error(second: str, refused: bool) -> None:
    devices = (DeviceSpec("GPU"), alias_device(DeviceSpec("GPU.1"), 1))
    names = [device.name for device in devices]
    partition = HeteroPartition(
        np.arange(2), tuple(names), np.arange(2), dict(zip(names, devices, strict=True))
    )
    reported = {
        name: {"EXECUTION_DEVICES": [one]}
        for name, one in zip(names, ["GPU.0", second], strict=True)
    }
    compiled = SimpleNamespace(get_property={"DEVICE_PROPERTIES": reported}.get)
    expected = pytest.raises(CompileError, match=r"on GPU_ALIAS1\.1 run on GPU\.0, though GPU\.1")
    with expected if refused else nullcontext():
        check_cards(compiled, partition)


def thread_time_ns() -> dict[str, int]:
    """Processor time of each thread of this process so far."""
    return {
        task.name: int((task / "schedstat").read_text().split()[0])
        for task in Path("/proc/self/task").iterdir()
    }


def working_threads(run: Callable[[], object], share: float) -> int:
    """Threads with more than a share of the work, which other processes hardly change."""
    before = thread_time_ns()
    for _ in range(20):
        run()
    spent = [after - before.get(task, 0) for task, after in thread_time_ns().items()]
    return sum(time > share * sum(spent) for time in spent)


@needs_two_cores
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs thread times")
@pytest.mark.parametrize("split", ["alias", "hetero"])
def test_a_thread_limit_is_obeyed_inside_a_split_model(split: str) -> None:
    run = {}
    for threads in (1, 2):
        devices = (
            DeviceSpec("CPU", threads=threads),
            DeviceSpec("CPU_FAST", plugin="CPU", threads=threads),
        )
        request = compile_halves(devices, split).create_infer_request()
        request.infer(dict(enumerate(sample_inputs(wide_chain()[0]))))
        run[threads] = request.infer
    assert working_threads(run[1], share=0.1) == 1
    # On a busy machine the second thread may come too late to find any work.
    assert any(working_threads(run[2], share=0.01) > 1 for _ in range(10))


@needs_bf16
@pytest.mark.parametrize("split", ["alias", "hetero"])
def test_a_precision_is_obeyed_inside_a_split_model(split: str) -> None:
    error = {}
    for precision in ("f32", "bf16"):
        devices = (
            DeviceSpec("CPU", threads=1),
            DeviceSpec("CPU_FAST", plugin="CPU", threads=1, precision=precision),
        )
        model, expected = wide_chain()
        error[precision] = worst_relative(outputs(compile_halves(devices, split), model), expected)
    assert error["f32"] < 1e-4 < error["bf16"]


def test_every_name_of_a_device_carries_its_settings() -> None:
    devices = (DeviceSpec("CPU", threads=1), DeviceSpec("CPU_FAST", plugin="CPU", threads=2))
    compiled = placement_gym.compile_model(
        ov.Core(), known_model("tiny"), placement("tiny", [0, 1, 0, 1, 1, 0, 1], devices), "alias"
    )
    settings = compiled.get_property("DEVICE_PROPERTIES")
    assert set(settings) > {"CPU", "CPU_FAST"}
    for name, properties in settings.items():
        assert properties["INFERENCE_NUM_THREADS"] == (2 if name.startswith("CPU_FAST") else 1)
        assert properties["INFERENCE_PRECISION_HINT"].to_string() == "f32"


def test_an_alias_never_takes_the_name_of_another_device() -> None:
    slow = TESTBED[0]
    plain = alias_device(slow, 1)
    beside_its_namesake = alias_device(slow, 1, {slow.name, plain.name})
    assert len({slow.name, plain.name, beside_its_namesake.name}) == 3
    assert beside_its_namesake.compile_properties() == slow.compile_properties()


def test_device_with_a_plugin_registered_once_keeps_its_name() -> None:
    assert alias_device(DeviceSpec("NPU"), 1) == DeviceSpec("NPU")
