# White-box tests of backends.measured
from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier, Event
from time import sleep
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from fakes import assignment
from openvino import opset13 as ops
from testbed import (
    CHESSBOARD,
    N_TINY,
    QUICK,
    backend,
    build_here,
    known_problem,
    make,
    needs_bf16,
    step,
    worker_of,
)

from placement_gym.backends import Measurement
from placement_gym.backends.measured import (
    MeasuredBackend,
    Reporter,
    TimingProtocol,
    counters,
    profile,
    timing,
    worker,
)
from placement_gym.backends.measured.candidate import Compilation, CompiledPlacement
from placement_gym.backends.measured.timing import Arm, Race, warm_up
from placement_gym.backends.measured.timing_protocol import MIN_COMPILATIONS
from placement_gym.base import EngineError, IntArray, UserError
from placement_gym.envs import DevicePlacementEnv
from placement_gym.models import ModelSpec


@needs_bf16
def test_a_low_precision_device_is_held_to_the_wider_tolerance() -> None:
    env = make(devices="cpu-testbed-bf16", cache=False)
    assert isinstance(env.backend, MeasuredBackend)
    assert env.backend.tolerance == 3e-2
    assert step(env, [0, 1, 1, 1, 0, 0, 0])["feasible"]


class WatchedCore(ov.Core):
    """Counts compilations, and refuses to split, or loses its devices, if told so."""

    def __init__(self, splits: bool = True) -> None:
        super().__init__()
        self.splits = splits
        self.lost = False
        self.compilations = 0

    def compile_model(self, model: Any, device_name: Any = None, config: Any = None) -> Any:
        self.compilations += 1
        if self.lost:
            raise RuntimeError("Exception from src/plugin.cpp:1:\nDEVICE_LOST")
        if "," in str(device_name) and not self.splits:
            raise RuntimeError("Exception from src/plugin.cpp:1:\nthe plugin is tired")
        return super().compile_model(model, device_name, config)


def test_a_measurement_reports_a_plausible_pair_of_latencies() -> None:
    measured = backend(ov.Core(), repeats=10).evaluate(assignment(CHESSBOARD))
    assert measured.error == ""
    assert 0 < measured.latency_ms <= measured.latency_p90_ms
    assert measured.speedup == pytest.approx(measured.reference_ms / measured.latency_ms)
    assert measured.noise >= 0
    assert measured.compile_s > 0
    assert measured.measure_s * 1e3 >= 10 * measured.latency_ms / 2
    assert not measured.cached


def test_a_failure_of_the_engine_is_data_and_does_not_spoil_the_next() -> None:
    core = WatchedCore(splits=False)
    tested = backend(core)
    measured = tested.evaluate(assignment(CHESSBOARD))
    assert not measured.feasible
    assert "the plugin is tired" in measured.error
    assert measured.latency_ms == pytest.approx(10 * measured.reference_ms)
    core.splits = True
    assert tested.evaluate(assignment(CHESSBOARD)).feasible


def test_an_engine_that_died_in_this_process_blames_no_placement() -> None:
    core = WatchedCore()
    tested = backend(core)
    assert tested.evaluate(assignment(CHESSBOARD)).feasible
    core.lost = True
    for _ in range(2):
        with pytest.raises(EngineError, match=r"reference device does not run: .*DEVICE_LOST"):
            tested.evaluate(assignment(CHESSBOARD))
    assert not tested.session.failures
    core.lost = False
    assert tested.evaluate(assignment(CHESSBOARD)).feasible


@pytest.mark.parametrize("spoilt", [1.5, float("inf"), float("nan")])
def test_outputs_unlike_the_reference_are_infeasible(
    spoilt: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = backend(ov.Core())
    tested.check_reference()
    wrong = [
        np.full_like(output, spoilt) for output in worker_of(tested).reference_outputs.expected
    ]
    monkeypatch.setattr(CompiledPlacement, "outputs", lambda candidate: wrong)
    measured = tested.evaluate(assignment(CHESSBOARD))
    assert "outputs differ from the reference" in measured.error
    assert measured.latency_ms == pytest.approx(10 * measured.reference_ms)


def log_of_negative() -> ov.Model:
    """Two branches whose sum is NaN for every input in [0, 1)."""
    values = ops.parameter((1, 8), np.float32, name="values")
    positive, negative = ops.relu(values), ops.subtract(values, np.float32(2.0))
    total = ops.add(positive, ops.log(negative))
    return ov.Model([ops.result(total)], [values], "nan")


def test_a_model_without_finite_outputs_is_refused() -> None:
    env = make(log_of_negative())
    for _ in range(2):
        with pytest.raises(UserError, match=r"NaN or infinite.*attention mask"):
            env.reset()


def test_model_with_infinite_outputs_is_refused_before_profiling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counters, "measure_operator_times", lambda *_: pytest.fail("profiled"))
    tested = build_here(ModelSpec(log_of_negative(), "op"))
    with pytest.raises(UserError, match="NaN or infinite"):
        profile.measure_profile(tested)


def test_outputs_that_are_all_zero_are_warned_of() -> None:
    values = ops.parameter((1, 8), np.float32, name="values")
    branches = ops.relu(ops.negative(values)), ops.relu(ops.subtract(values, np.float32(2.0)))
    model = ov.Model([ops.result(ops.add(*branches))], [values], "zero")
    options = {"devices": "cpu-testbed", "isolate": False, **QUICK}
    env = gym.make("DevicePlacement-v0", model=model, **options)
    with pytest.warns(UserWarning, match=r"all zero.*give inputs of your own"):
        env.reset()


def test_a_memory_limit_is_checked_before_compiling() -> None:
    env = make(devices="cpu-testbed-limited")
    info = step(env, [1] * N_TINY)
    assert info["latency_ms"] == pytest.approx(10 * info["reference_ms"])
    assert "CPU_FAST would hold" in info["error"]
    assert step(env, [1, 1, 0, 1, 1, 1, 1])["feasible"]


def test_single_devices_are_compiled_once_over_many_resets() -> None:
    core = WatchedCore()
    env = DevicePlacementEnv(backend(core))
    env.reset()
    known = core.compilations
    for seed in range(5):
        env.reset(seed=seed)
    assert core.compilations == known > 0


@pytest.mark.parametrize("cache", [True, False])
def test_repeated_placement_is_measured_again_without_the_cache(cache: bool) -> None:
    env = make(cache=cache, horizon=2)
    env.reset()
    first, second = (env.step(CHESSBOARD)[4] for _ in range(2))
    assert not first["cached"]
    assert second["cached"] == cache
    assert (second["compile_s"] == 0.0) == cache
    assert (second["latency_ms"] == first["latency_ms"]) == cache


def test_remeasuring_compiles_every_finalist_afresh() -> None:
    core = WatchedCore()
    tested = backend(core, final_compiles=2, final_noise=0)
    finalists = [assignment(CHESSBOARD), assignment([1] * N_TINY)]
    for finalist in finalists:
        tested.evaluate(finalist)
    known = core.compilations
    measured = tested.remeasure(finalists)
    assert core.compilations == known + 2 * len(finalists)
    assert [m.n_submodels == m.n_submodels_expected for m in measured] == [True, True]
    assert measured[0].reference_ms == measured[1].reference_ms


def test_finalists_are_compiled_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    core = WatchedCore()
    tested = backend(core, final_compiles=1)
    together, compile_one = Barrier(2, timeout=20.0), worker_of(tested).compile

    def compile_with_another(placed: IntArray) -> CompiledPlacement:
        together.wait()  # breaks if nothing else is compiled meanwhile
        return compile_one(placed)

    monkeypatch.setattr(worker_of(tested), "compile", compile_with_another)
    monkeypatch.setattr(worker, "usable_cores", lambda: 2)
    finalists = [tested.problem.single(0), assignment(CHESSBOARD)]
    assert [m.n_submodels for m in tested.remeasure(finalists)] == [1, 5]
    assert core.compilations == len(finalists)  # the reference is one of them


def test_finalists_that_compile_long_are_compiled_no_more_than_a_verdict_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Race, "is_decided", lambda *noise: False)
    core = WatchedCore()
    tested = backend(core, final_compiles=MIN_COMPILATIONS + 1, final_s=0)
    assert tested.protocol.most_rounds(float("nan")) == MIN_COMPILATIONS + 1  # an unknown time
    tested.remeasure([tested.problem.single(0)])
    assert core.compilations == MIN_COMPILATIONS


class ScriptedArm:
    """A candidate that takes as long as it is told, by a clock of the test."""

    def __init__(self, ms: float, pass_ms: Callable[[float], None]) -> None:
        self.compilation = Compilation(1, 1, 0, 0, (0, 0), 0.0)
        self.run = lambda: pass_ms(ms)
        self.inferences = SimpleNamespace(find_timer=lambda: None)

    def forget(self) -> None:
        pass

    def outputs(self) -> list[Any]:
        return []

    def summarize(self) -> Compilation:
        return self.compilation


def test_placements_keep_their_times_in_any_compile_order(monkeypatch: pytest.MonkeyPatch) -> None:
    tested = backend(ov.Core(), final_compiles=2)
    now_ms, compiled = [0.0], []

    def pass_ms(ms: float) -> None:
        now_ms[0] += ms

    def compile_scripted(placed: IntArray) -> ScriptedArm:
        compiled.append(int(placed[0]))
        return ScriptedArm(1.0 + 2.0 * placed[0], pass_ms)

    def compile_one_by_one(placements: Sequence[IntArray]) -> Iterator[ScriptedArm]:
        return map(compile_scripted, placements)

    monkeypatch.setattr(timing, "perf_counter", lambda: now_ms[0] / 1e3)
    monkeypatch.setattr(timing, "find_share", lambda used: 0.0)  # no round is disturbed
    monkeypatch.setattr(worker_of(tested), "compile_all", compile_one_by_one)
    monkeypatch.setattr(worker_of(tested).reference_outputs, "check", lambda outputs, placed: None)
    measured = tested.remeasure([tested.problem.single(0), tested.problem.single(1)])
    assert compiled == [0, 1, 1, 0]
    assert [m.latency_ms for m in measured] == pytest.approx([1.0, 3.0])
    assert measured[1].noise < 0.1  # samples of one mixed with the other would give more


def test_counting_gives_a_sign_of_life_before_each_inference() -> None:
    tested, beats = backend(ov.Core(), counter_inferences=8), list[str]()
    worker_of(tested).host.reporter = Reporter(on_heartbeat=beats.append)
    tested.measure_operators(1)
    first = 1
    assert [beats.count(stage) for stage in dict.fromkeys(beats)][-2:] == [
        1,
        first + counters.WARMUP + 8,
    ]


def test_openvinos_own_choice_is_an_assignment() -> None:
    tested = backend(ov.Core())
    automatic, single = tested.own_choice("HETERO"), tested.own_choice("AUTO")
    assert automatic.shape == single.shape == (N_TINY,)
    assert set(automatic.tolist()) <= {0, 1}
    assert len(set(single.tolist())) == 1


def test_closed_env_can_be_closed_again_and_frees_its_reference() -> None:
    tested = backend(ov.Core())
    tested.evaluate(assignment(CHESSBOARD))
    tested.close()
    tested.close()
    assert "reference" not in vars(tested)


@pytest.mark.slow
def test_every_unit_of_the_built_in_models_runs_on_the_cpu() -> None:
    assert known_problem("bert-8").supported.all()
    assert make().action_masks().all()


def test_measured_observations_know_no_costs() -> None:
    from placement_gym.envs import FEATURES

    assert not make().reset()[0]["x"][:, FEATURES["cost"]].any()


@pytest.mark.parametrize("kwargs", [{"granularity": "fused"}, {"graph": "raw"}])
def test_fused_units_and_raw_operators_are_measured_too(kwargs: dict[str, str]) -> None:
    env = make(**{"granularity": "op", **kwargs})
    info = step(env, (np.arange(env.problem.n_units) % 2).tolist())
    assert (info["error"], info["n_submodels"]) == ("", info["n_submodels_expected"])


def test_primitive_counts_for_its_own_work_not_its_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    tested, fused = backend(ov.Core(), "cnn-int8", counter_inferences=1), "stage0/block0/sum"
    names = [fused, "stage0/block0/relu2/quantized"]
    monkeypatch.setattr(counters, "members_of_primitives", lambda _: {"primitive": names})
    monkeypatch.setattr(counters, "time_primitives", lambda *_: (1.0, {"primitive": 1.0}))
    times = dict(
        zip(tested.problem.units.graph.names, tested.measure_operators(0).tolist(), strict=True)
    )
    assert {name: ms for name, ms in times.items() if ms} == {fused: 1.0}


def test_what_is_compiled_is_freed_with_its_backend() -> None:
    measured = build_here(ModelSpec("tiny"))
    assert measured.evaluate(assignment([0, 1, 1, 1, 0, 0, 0])).error == ""
    left = weakref.ref(measured)
    gc.disable()
    try:
        del measured
        assert left() is None
    finally:
        gc.enable()


def test_measurements_leave_no_objects_behind() -> None:
    def measure(n: int) -> int:
        for _ in range(n):
            assert measuring.evaluate(assignment(CHESSBOARD)).error == ""
        gc.collect()
        return sys.getallocatedblocks()

    with closing(build_here(ModelSpec("tiny"))) as measuring:
        before = measure(10)
        assert (measure(10) - before) / 10 < 60  # it was 330 with OpenVINO's lists of properties


def test_what_the_engine_refuses_is_a_failure_in_this_process_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the plugin is tired")

    tested = backend(ov.Core())
    monkeypatch.setattr(counters, "measure_operator_times", fail)
    monkeypatch.setattr(worker.hetero, "place_by_auto", fail)
    for ask in (lambda: tested.measure_operators(0), lambda: tested.own_choice("AUTO")):
        with pytest.raises(EngineError, match="failed: the plugin is tired"):
            ask()


def test_a_copy_with_another_protocol_does_not_change_what_is_measured_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tested = backend(ov.Core(), repeats=2)
    other = tested.with_protocol(TimingProtocol(warmup=0, repeats=8))
    began, repeats = Event(), list[int]()

    def measure(self: worker.Worker, assignment: IntArray, rival: float) -> Measurement:
        began.set()
        sleep(0.2)  # the other one asks meanwhile
        repeats.append(self.protocol.repeats)
        return Measurement(1.0, 1.0, 1.0)

    monkeypatch.setattr(worker.Worker, "measure_once", measure)
    alone = tested.problem.single(0)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(tested.measure_once, alone)
        began.wait(10.0)
        second = threads.submit(other.measure_once, alone)
        assert first.result().feasible
        assert second.result().feasible
    assert repeats == [2, 8]


def test_the_reference_is_warmed_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    env, runs = make(warmup=1), list[int]()

    def count(run: Callable[[], object], max_runs: int) -> Arm:
        runs.append(max_runs)
        return warm_up(run, max_runs)

    monkeypatch.setattr(worker, "warm_up", count)
    for split in ([0, 0, 0, 0, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0, 0]):
        step(env, split)
    # both devices alone are measured, too
    assert sorted(runs) == [1] * 5 + [worker.FINAL_WARMUP]
