from __future__ import annotations

import re
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from fakes import assignment
from numpy.typing import NDArray
from openvino import opset13 as ops

import placement_gym
from placement_gym import DeviceSpec, Placement, PlacementMismatchError, apply_placement
from placement_gym.backends.measured import Candidate, MeasuredBackend, Protocol
from placement_gym.backends.measured.hetero import (
    CompileError,
    Split,
    aliased,
    set_affinities,
)
from placement_gym.backends.measured.lock import measuring
from placement_gym.backends.measured.outputs import relative_error, sample_inputs, tolerance
from placement_gym.devices import PRESETS, TESTBED, UnknownDeviceError, usable_cores
from placement_gym.env import DevicePlacementEnv
from placement_gym.graph.extract import extract
from placement_gym.models import load
from placement_gym.problem import Problem

QUICK = {"warmup": 1, "repeats": 2}
N_TINY = 7
CHESSBOARD = [0, 1, 1, 0, 1, 0, 1]
TINY_SPLITS = (
    [0] * N_TINY,
    [1] * N_TINY,
    [0, 0, 0, 0, 1, 1, 1],
    [1, 0, 0, 0, 0, 0, 0],
    [0, 1, 1, 0, 0, 0, 0],
    [0, 0, 1, 0, 1, 0, 0],
    CHESSBOARD,
)

needs_two_cores = pytest.mark.skipif(usable_cores() < 2, reason="needs two cores")
needs_bf16 = pytest.mark.skipif(
    "BF16" not in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"),
    reason="this CPU has no bf16",
)
needs_one_device = pytest.mark.skipif(
    len(ov.Core().available_devices) > 1, reason="this machine has several devices"
)


def make(model: str = "tiny", devices: Any = "cpu-testbed", **kwargs: Any) -> DevicePlacementEnv:
    env = gym.make("DevicePlacement-v0", model=model, devices=devices, **{**QUICK, **kwargs})
    return cast(DevicePlacementEnv, env.unwrapped)


def step(env: DevicePlacementEnv, devices: Sequence[int]) -> dict[str, Any]:
    env.reset()
    return env.step(devices)[4]


@cache
def known_model(name: str) -> ov.Model:
    return load(name)


@cache
def known_problem(name: str, devices: tuple[DeviceSpec, ...] = TESTBED) -> Problem:
    return make(name, devices).problem


def placement(
    name: str, placed: Sequence[int], devices: tuple[DeviceSpec, ...] = TESTBED
) -> Placement:
    return Placement.of(known_problem(name, devices), assignment(placed))


def halves(name: str) -> list[int]:
    n = known_problem(name).n_units
    return [0] * (n // 2) + [1] * (n - n // 2)


def outputs(compiled: ov.CompiledModel, model: ov.Model) -> list[NDArray[Any]]:
    request = compiled.create_infer_request()
    request.infer(dict(enumerate(sample_inputs(model))))
    return [tensor.data.astype(np.float64) for tensor in request.output_tensors]


@cache
def plain_outputs(name: str) -> list[NDArray[Any]]:
    model = known_model(name)
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return outputs(compiled, model)


def worst_relative(found: list[NDArray[Any]], expected: list[NDArray[Any]]) -> float:
    assert len(found) == len(expected)
    return max(
        float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, expected, strict=True)
    )


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


@pytest.mark.parametrize("placed", TINY_SPLITS, ids=str)
def test_aliases_give_tiny_the_expected_submodels(placed: list[int]) -> None:
    info = step(make(split="alias"), placed)
    assert (info["error"], info["n_submodels"]) == ("", info["n_submodels_expected"])


@pytest.mark.parametrize(
    ("placed", "expected"),
    [([0] * N_TINY, 1), ([1, 0, 0, 0, 0, 0, 0], 2), ([0, 1, 1, 0, 0, 0, 0], 4)],
    ids=["one-device", "prefix", "two-branches-apart"],
)
def test_the_expected_count_is_right_by_hand(placed: list[int], expected: int) -> None:
    assert step(make(split="alias"), placed)["n_submodels"] == expected


@pytest.mark.parametrize("index", range(6))
def test_aliases_give_bert_the_expected_submodels_and_its_outputs(index: int) -> None:
    placed = bert_splits()[index]
    compiled = placement_gym.compile_model(
        ov.Core(), known_model("bert-8"), placement("bert-8", placed), split="alias"
    )
    graph = known_problem("bert-8").units.graph
    units = known_problem("bert-8").units.of_operator
    split = Split.of(graph, assignment(placed)[units], TESTBED, alias=True)
    assert split.n_submodels > 1
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == split.n_submodels
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
def test_a_compiled_placement_runs_on_the_devices_it_names_and_no_other(
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


def test_applying_a_placement_sets_the_affinity_of_every_node() -> None:
    model = load("tiny")
    placed = placement("tiny", CHESSBOARD)
    apply_placement(model, placed)
    affinity = {
        node.get_friendly_name(): node.get_rt_info()["affinity"].astype(str)
        for node in model.get_ordered_ops()
    }
    for unit, device in placed.units.items():
        assert {affinity[member] for member in placed.members[unit]} == {device}
    assert set(affinity.values()) == {"CPU", "CPU_FAST"}


def test_a_node_without_a_device_is_an_error() -> None:
    graph = extract(known_model("tiny"), "folded")
    split = Split.of(graph, np.zeros(len(graph), dtype=np.int64), TESTBED, alias=False)
    stranger = load("tiny")
    stranger.get_ordered_ops()[-2].set_friendly_name("renamed")
    with pytest.raises(CompileError, match="renamed"):
        set_affinities(stranger, graph, split)


def thread_time_ns() -> dict[str, int]:
    """Processor time of each thread of this process so far."""
    return {
        task.name: int((task / "schedstat").read_text().split()[0])
        for task in Path("/proc/self/task").iterdir()
    }


def working_threads(run: Callable[[], object]) -> int:
    """Threads with a share of the work, a count that other processes hardly change."""
    before = thread_time_ns()
    for _ in range(20):
        run()
    spent = [after - before.get(task, 0) for task, after in thread_time_ns().items()]
    return sum(time > 0.01 * sum(spent) for time in spent)


@needs_two_cores
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs thread times")
@pytest.mark.parametrize("split", ["alias", "hetero"])
def test_a_thread_limit_is_obeyed_inside_a_split_model(split: str) -> None:
    working = {}
    for threads in (1, 2):
        devices = (
            DeviceSpec("CPU", threads=threads),
            DeviceSpec("CPU_FAST", plugin="CPU", threads=threads),
        )
        compiled = placement_gym.compile_model(
            ov.Core(),
            known_model("resnet"),
            placement("resnet", halves("resnet"), devices),
            split=split,
        )
        assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") > 1
        request = compiled.create_infer_request()
        request.infer(dict(enumerate(sample_inputs(known_model("resnet")))))
        working[threads] = working_threads(request.infer)
    assert working[1] == 1
    assert working[2] > 1


@needs_bf16
@pytest.mark.parametrize("split", ["alias", "hetero"])
def test_a_precision_is_obeyed_inside_a_split_model(split: str) -> None:
    error = {}
    for precision in ("f32", "bf16"):
        devices = (
            DeviceSpec("CPU", threads=1),
            DeviceSpec("CPU_FAST", plugin="CPU", threads=1, precision=precision),
        )
        compiled = placement_gym.compile_model(
            ov.Core(),
            known_model("resnet"),
            placement("resnet", halves("resnet"), devices),
            split=split,
        )
        found = outputs(compiled, known_model("resnet"))
        error[precision] = worst_relative(found, plain_outputs("resnet"))
    assert error["f32"] < 1e-4 < error["bf16"]


def test_every_name_of_a_device_carries_its_settings() -> None:
    devices = PRESETS["cpu-testbed-bf16"]
    compiled = placement_gym.compile_model(
        ov.Core(), known_model("tiny"), placement("tiny", [0, 1, 0, 1, 1, 0, 1], devices), "alias"
    )
    settings = compiled.get_property("DEVICE_PROPERTIES")
    assert set(settings) > {"CPU", "CPU_FAST"}
    for name, properties in settings.items():
        assert properties["INFERENCE_NUM_THREADS"] == 1
        expected = "f32" if name == "CPU" else "bf16"
        assert properties["INFERENCE_PRECISION_HINT"].to_string() == expected


@needs_bf16
def test_a_low_precision_device_is_held_to_the_wider_tolerance() -> None:
    assert tolerance(PRESETS["cpu-testbed"]) == 1e-4
    assert tolerance(PRESETS["cpu-testbed-bf16"]) == 3e-2
    assert step(make(devices="cpu-testbed-bf16"), [0, 1, 1, 1, 0, 0, 0])["feasible"]


class WatchedCore(ov.Core):
    """Counts compilations, and refuses to split if told so."""

    def __init__(self, splits: bool = True) -> None:
        super().__init__()
        self.splits = splits
        self.compilations = 0

    def compile_model(self, model: Any, device_name: Any = None, config: Any = None) -> Any:
        self.compilations += 1
        if "," in str(device_name) and not self.splits:
            raise RuntimeError("Exception from src/plugin.cpp:1:\nthe plugin is tired")
        return super().compile_model(model, device_name, config)


def backend(core: ov.Core, name: str = "tiny", **protocol: int) -> MeasuredBackend:
    protocol = {"final_repeats": 2, **QUICK, **protocol}
    return MeasuredBackend(
        core, known_model(name), known_problem(name), "alias", Protocol(**protocol)
    )


def test_a_measurement_reports_a_plausible_pair_of_latencies() -> None:
    measured = backend(ov.Core(), repeats=10).evaluate(assignment(CHESSBOARD))
    assert measured.error == ""
    assert 0 < measured.latency_ms <= measured.latency_p90_ms
    assert measured.speedup == pytest.approx(measured.reference_ms / measured.latency_ms)
    assert measured.noise >= 0
    assert measured.compile_s > 0
    assert measured.measure_s * 1e3 >= 10 * measured.latency_ms / 2
    assert not measured.cached


def test_a_failure_of_the_engine_is_data() -> None:
    measured = backend(WatchedCore(splits=False)).evaluate(assignment(CHESSBOARD))
    assert not measured.feasible
    assert "the plugin is tired" in measured.error
    assert measured.latency_ms == pytest.approx(10 * measured.reference_ms)


def test_a_failed_placement_does_not_spoil_the_next() -> None:
    core = WatchedCore(splits=False)
    tested = backend(core)
    assert not tested.evaluate(assignment(CHESSBOARD)).feasible
    core.splits = True
    assert tested.evaluate(assignment(CHESSBOARD)).feasible


@pytest.mark.parametrize("spoilt", [1.5, float("inf"), float("nan")])
def test_outputs_unlike_the_reference_make_a_placement_infeasible(
    spoilt: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = backend(ov.Core())
    wrong = [np.full_like(output, spoilt) for output in tested.expected]
    monkeypatch.setattr(Candidate, "outputs", lambda candidate: wrong)
    measured = tested.evaluate(assignment(CHESSBOARD))
    assert "outputs differ from the reference" in measured.error
    assert measured.latency_ms == pytest.approx(10 * measured.reference_ms)


def test_a_model_without_finite_outputs_is_refused() -> None:
    values = ops.parameter((1, 8), np.float32, name="values")
    positive, negative = ops.relu(values), ops.subtract(values, np.float32(2.0))
    total = ops.add(positive, ops.log(negative))
    model = ov.Model([ops.result(total)], [values], "nan")
    env = gym.make("DevicePlacement-v0", model=model, devices="cpu-testbed", **QUICK)
    with pytest.raises(ValueError, match="NaN or infinite"):
        env.reset()


def test_a_memory_limit_is_checked_before_compiling() -> None:
    env = make(devices="cpu-testbed-limited")
    info = step(env, [1] * N_TINY)
    assert info["latency_ms"] == pytest.approx(10 * info["reference_ms"])
    assert "CPU_FAST holds" in info["error"]
    assert step(env, [1, 1, 0, 1, 1, 1, 1])["feasible"]


def test_the_single_devices_are_compiled_once_however_often_reset_is_called() -> None:
    core = WatchedCore()
    env = DevicePlacementEnv(backend(core))
    env.reset()
    known = core.compilations
    for seed in range(5):
        env.reset(seed=seed)
    assert core.compilations == known > 0


@pytest.mark.parametrize("cache", [True, False])
def test_a_repeated_placement_is_measured_again_only_without_the_cache(cache: bool) -> None:
    env = make(cache=cache, horizon=2)
    env.reset()
    first, second = (env.step(CHESSBOARD)[4] for _ in range(2))
    assert not first["cached"]
    assert second["cached"] == cache
    assert (second["compile_s"] == 0.0) == cache
    assert (second["latency_ms"] == first["latency_ms"]) == cache


def test_remeasuring_compiles_every_finalist_afresh() -> None:
    core = WatchedCore()
    tested = backend(core, final_compiles=3)
    finalists = [assignment(CHESSBOARD), assignment([1] * N_TINY)]
    for finalist in finalists:
        tested.evaluate(finalist)
    known = core.compilations
    measured = tested.remeasure(finalists)
    assert core.compilations == known + 3 * len(finalists)
    assert [m.n_submodels == m.n_submodels_expected for m in measured] == [True, True]
    assert measured[0].reference_ms == measured[1].reference_ms


def test_openvinos_own_choice_is_an_assignment() -> None:
    tested = backend(ov.Core())
    automatic, single = tested.own_choice("HETERO"), tested.own_choice("AUTO")
    assert automatic.shape == single.shape == (N_TINY,)
    assert set(automatic.tolist()) <= {0, 1}
    assert len(set(single.tolist())) == 1


def test_a_closed_env_can_be_closed_again_and_gives_its_reference_back() -> None:
    tested = backend(ov.Core())
    tested.evaluate(assignment(CHESSBOARD))
    tested.close()
    tested.close()
    assert "reference" not in vars(tested)


@needs_one_device
def test_a_machine_with_one_device_gets_the_test_bed_and_is_told_so() -> None:
    with pytest.warns(UserWarning, match="one device.*'cpu-testbed'.*never a claim"):
        env = make(devices=None)
    info = env.reset()[1]
    assert env.problem.devices == TESTBED
    assert info["testbed"]
    assert list(info["devices"]) == ["CPU", "CPU_FAST"]


@pytest.mark.parametrize("devices", ["CPU,NPU.9", ["GPU.77"], [{"name": "GPU.77"}, "CPU"]])
def test_an_unknown_device_fails_at_make_with_those_available(devices: Any) -> None:
    with pytest.raises(UnknownDeviceError, match=r"'(NPU.9|GPU.77)' is not available.*\['CPU'"):
        make(devices=devices)


def test_every_unit_of_the_built_in_models_runs_on_the_cpu() -> None:
    assert known_problem("bert-8").supported.all()
    assert make().action_masks().all()


def test_measured_observations_know_no_costs() -> None:
    from placement_gym.observation import FEATURES

    assert not make().reset()[0]["x"][:, FEATURES["cost"]].any()


@pytest.mark.parametrize("granularity", ["op", "fused"])
def test_other_granularities_are_measured_too(granularity: str) -> None:
    env = make(granularity=granularity)
    placed = np.arange(env.problem.n_units) % 2
    info = step(env, placed.tolist())
    assert (info["error"], info["n_submodels"]) == ("", info["n_submodels_expected"])


def test_the_raw_graph_is_measured_too() -> None:
    env = make(granularity="op", graph="raw")
    info = step(env, (np.arange(env.problem.n_units) % 2).tolist())
    assert info["error"] == ""


def test_sample_inputs_repeat_and_hide_no_token() -> None:
    first, second = (sample_inputs(known_model("bert-8")) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    names = [port.get_node().get_friendly_name() for port in known_model("bert-8").inputs]
    masks = [value for name, value in zip(names, first, strict=True) if "mask" in name]
    assert masks
    assert all((mask == 1).all() for mask in masks)


def test_relative_error_is_that_of_the_worst_output() -> None:
    ones = np.ones(3, np.float32)
    assert relative_error([ones, ones], [ones, ones]) == 0.0
    assert relative_error([1.1 * ones, 2.6 * ones], [ones, 2 * ones]) == pytest.approx(0.3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("position", [0, 1])
def test_relative_error_of_an_output_that_is_not_finite_is_infinite(
    value: float, position: int
) -> None:
    expected = [np.ones(3, np.float32), np.ones(3, np.float32)]
    found = [array.copy() for array in expected]
    found[position][1] = value
    assert relative_error(found, expected) == float("inf")


WAITING_CHILD = """
import sys, gymnasium
env = gymnasium.make("placement_gym:DevicePlacement-v0", model="tiny", devices="cpu-testbed",
                     warmup=1, repeats=2)
print("ready", flush=True)
env.reset()
print("measured", flush=True)
"""


def test_a_second_process_waits_while_the_first_measures() -> None:
    with measuring():
        child = subprocess.Popen(
            [sys.executable, "-c", WAITING_CHILD], stdout=subprocess.PIPE, text=True, bufsize=1
        )
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            waiting = not select.select([child.stdout], [], [], 2.0)[0]
        except BaseException:
            child.kill()
            raise
    printed, _ = child.communicate(timeout=60)
    assert waiting
    assert (printed, child.returncode) == ("measured\n", 0)


def test_the_lock_can_be_taken_again_by_its_holder() -> None:
    with measuring(), measuring():
        assert backend(ov.Core()).evaluate(assignment(CHESSBOARD)).feasible


def test_the_lock_is_free_again_when_its_holder_dies() -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os\nfrom placement_gym.backends.measured.lock import measuring\n"
            "measuring().acquire()\nprint('held', flush=True)\nos._exit(1)",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.communicate(timeout=60)[0] == "held\n"
    with measuring().acquire(timeout=30):
        pass


def test_an_alias_never_takes_the_name_of_another_device() -> None:
    slow = TESTBED[0]
    plain = aliased(slow, 1)
    beside_its_namesake = aliased(slow, 1, {slow.name, plain.name})
    assert len({slow.name, plain.name, beside_its_namesake.name}) == 3
    assert beside_its_namesake.compile_properties() == slow.compile_properties()


def test_a_device_whose_plugin_cannot_be_registered_twice_keeps_its_name() -> None:
    assert aliased(DeviceSpec("GPU"), 1) == DeviceSpec("GPU")
