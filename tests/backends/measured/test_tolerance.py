# White-box tests of backends.measured
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from numpy.typing import NDArray
from openvino import opset13 as ops
from quantized import write_onnx
from testbed import backend, build_here, known_model, make, worker_of

from placement_gym.backends.measured import QUICK as QUICK_PROFILE
from placement_gym.backends.measured import (
    MeasuredBackend,
    Reporter,
    build_measured_backend,
    relative_error,
)
from placement_gym.backends.measured.engine import EngineProcess
from placement_gym.backends.measured.outputs import (
    check_expected,
    compare_outputs,
    find_tolerance,
    measure_rounding,
)
from placement_gym.backends.measured.profile import measure_profile
from placement_gym.backends.measured.server import build_worker
from placement_gym.base import UserError
from placement_gym.deployment import FaultFinder
from placement_gym.graph import without_integer_kernels
from placement_gym.hardware import PRESETS, TESTBED
from placement_gym.models import ModelSpec, load_model, separate_constants, shared_constants
from placement_gym.workloads import sample_inputs

Measure = Callable[[], float | None]


def never() -> float:
    raise AssertionError("nothing is to be measured")


def part(
    tolerance: float | None, model: str = "cnn-int8", pattern: str = "conv1|project"
) -> tuple[MeasuredBackend, Any]:
    """A backend of single nodes, and a placement that parts convolutions from their rounding."""
    env = make(model, graph="raw", granularity="op", tolerance=tolerance, cache=False)
    tested = env.backend
    names = tested.problem.units.names
    return tested, np.array([int(re.search(pattern, name) is not None) for name in names])


def request(model: ov.Model) -> ov.InferRequest:
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    return ov.Core().compile_model(model, "CPU", config).create_infer_request()


@pytest.mark.parametrize(
    ("model", "devices", "measure", "expected"),
    [
        ("tiny", "cpu-testbed", never, 1e-4),
        ("tiny", "cpu-testbed-bf16", never, 3e-2),
        ("cnn-int8", "cpu-testbed", lambda: 5e-3, 1.5e-2),
        ("cnn-int8", "cpu-testbed", lambda: 0.0, 1e-4),
        ("cnn-int8", "cpu-testbed", lambda: float("inf"), 0.1),
        ("cnn-int8", "cpu-testbed-bf16", lambda: 5e-3, 3e-2),
        ("gpt-int8", "cpu-testbed", lambda: None, 3e-2),
    ],
)
def test_tolerance_follows_from_devices_and_rounding(
    model: str, devices: str, measure: Measure, expected: float
) -> None:
    found = find_tolerance(known_model(model), PRESETS[devices], measure)
    assert found == pytest.approx(expected)


def test_rounding_costs_a_quantised_model_more_than_f32_splits() -> None:
    measured = {}
    image = np.random.default_rng(1).random((1, 3, 64, 64), dtype=np.float32)
    for name in ("cnn", "cnn-int8"):
        model = known_model(name)
        exact = request(without_integer_kernels(model))
        measured[name] = measure_rounding(request(model), exact, [image])
    assert measured["cnn"] is not None
    assert measured["cnn"] < 1e-4 < (measured["cnn-int8"] or 0.0) < 0.1 / 3


def test_rounding_costs_what_integers_that_overflow_change() -> None:
    x = ops.parameter([1, 4], np.float32, name="x")
    limits = [ops.minimum(x, np.float32(limit)) for limit in (3.0, 9.0)]
    cut_off, exact = (request(ov.Model([ops.result(one)], [x], "cut")) for one in limits)
    found = measure_rounding(cut_off, exact, [np.full((1, 4), 4.0, np.float32)])
    assert found == pytest.approx(1 / 3)


def test_rounding_is_not_measured_without_real_inputs() -> None:
    ids = ops.parameter([4], np.int64, name="ids")
    model = ov.Model([ops.result(ops.relu(ops.convert(ids, "f32")))], [ids], "integers")
    assert measure_rounding(request(model), request(model), [np.arange(4)]) is None


def test_a_backend_measures_the_tolerance_of_a_quantised_model() -> None:
    assert 1e-4 < backend(ov.Core(), "cnn-int8").tolerance <= 0.1
    assert backend(ov.Core(), "tiny").tolerance == 1e-4


def test_failed_comparison_names_an_option_value_that_passes() -> None:
    tested, assignment = part(tolerance=1e-9)
    error = tested.evaluate(assignment).error
    assert re.search(r"outputs differ .* more than 1\.0e-09; if this model loses", error)
    stated = re.search(r"pass tolerance=(\S+) \(--tolerance (\S+)\)", error)
    assert stated is not None
    assert stated[1] == stated[2]
    tested, assignment = part(tolerance=float(stated[1]))
    assert tested.evaluate(assignment).error == ""


def test_differently_rounded_placement_passes_the_tolerance() -> None:
    tested, assignment = part(tolerance=None)
    assert tested.evaluate(assignment).error == ""


def test_a_split_passes_where_integers_overflow_in_it_or_not(tmp_path: Path) -> None:
    write_onnx(tmp_path / "full_range.onnx")
    tested, assignment = part(None, str(tmp_path / "full_range.onnx"), "conv0")
    assert tested.evaluate(assignment).error == ""


@pytest.mark.parametrize("error", [1.61e-2, 0.0999, 9.99e-5])
def test_the_value_that_passes_is_rounded_up(error: float) -> None:
    expected = [np.ones(4, np.float64)]
    message = compare_outputs([expected[0] + error], expected, 1e-6)
    passing = float(message.split("tolerance=")[1].split(" ")[0])
    assert error * (1 - 1e-9) <= passing <= 1.1 * error
    assert compare_outputs([expected[0] + error], expected, passing) == ""


def test_no_tolerance_is_advised_that_rounding_cannot_explain() -> None:
    message = compare_outputs([np.full(4, 1.67)], [np.ones(4)], 1e-4)
    assert "rounding alone cannot explain" in message
    assert "tolerance" not in message


@pytest.mark.parametrize(
    ("output", "said"), [(np.zeros((1, 4)), "are all zero"), (np.zeros((1, 0)), "have no elements")]
)
def test_outputs_that_prove_nothing_are_said_to(output: Any, said: str) -> None:
    with pytest.warns(UserWarning, match=f"outputs {said} .* inputs of your own"):
        check_expected([output])


def make_random(seed: int) -> ov.Model:
    """One output that is random, and one that is not."""
    x = ops.parameter([1, 16], np.float32, name="x")
    low, high = (ops.constant(np.float32(value)) for value in (0, 1))
    drawn = ops.random_uniform(ops.constant([1, 16]), low, high, "f32", 0, seed)
    drawn.set_friendly_name("noise")
    moved, plain = ops.relu(ops.add(x, drawn), name="moved"), ops.exp(x, name="plain")
    return ov.Model([ops.result(moved), ops.result(plain)], [x], "random")


def test_random_outputs_are_told_apart_from_a_wrong_device() -> None:
    tested = build_here(ModelSpec(make_random(0), "op"))
    with pytest.warns(UserWarning, match="1 of 2 outputs .* because RandomUniform 'noise' draws"):
        assert tested.steady == [False, True]
    found = FaultFinder(tested, 1).find()
    assert (found.faults, found.confirmed) == ([], True)
    assert tested.evaluate(tested.problem.single(1)).error == ""


def test_outputs_of_a_seeded_generator_stay_comparable() -> None:
    assert build_here(ModelSpec(make_random(7), "op")).steady == [True, True]


def make_tied() -> tuple[ov.Model, NDArray[np.float64]]:
    """One square constant that is read plain and transposed, and its outputs on sample inputs."""
    weights = (np.random.default_rng(0).standard_normal((64, 64)) / 8).astype(np.float32)
    x, w = ops.parameter([1, 4, 64], np.float32, name="x"), ops.constant(weights, name="w")
    hidden = ops.relu(ops.matmul(x, w, False, False, name="encode"))
    result = ops.result(ops.relu(ops.matmul(hidden, w, False, True, name="decode")))
    model = ov.Model([result], [x], "tied")
    (given,) = sample_inputs(model)
    exact = weights.astype(np.float64)
    return model, np.maximum(np.maximum(given @ exact, 0) @ exact.T, 0)


def test_separate_constants_are_right_also_when_read_again(tmp_path: Path) -> None:
    model, expected = make_tied()
    assert shared_constants(model) == ["w"]
    separate = separate_constants(model)
    ov.save_model(separate, tmp_path / "separate.xml", compress_to_fp16=False)
    for one in (separate, ov.Core().read_model(tmp_path / "separate.xml")):
        found = request(one)
        found.infer(dict(enumerate(sample_inputs(model))))
        assert relative_error([found.get_output_tensor(0).data], [expected]) < 1e-5


def test_a_reference_that_is_wrong_is_not_blamed_on_a_placement() -> None:
    model, expected = make_tied()
    tested = build_here(ModelSpec(model, "op"))
    if relative_error(worker_of(tested).reference_outputs.expected, [expected]) < 1e-3:
        pytest.skip("this OpenVINO computes tied products right")
    with pytest.raises(UserError, match=r"CPU computes the model wrong.*'w'.*agree.*separate_con"):
        tested.evaluate(np.arange(tested.problem.n_units) % 2)


def test_a_worker_gets_the_stated_tolerance() -> None:
    isolated = build_measured_backend(ModelSpec("tiny"), TESTBED, tolerance=0.25)
    assert isinstance(isolated.engine, EngineProcess)
    built = build_worker(ModelSpec("tiny"), *isolated.engine.setup, Reporter())
    assert built.tolerance == 0.25


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("nan"), "much"])
def test_a_tolerance_is_above_zero(tolerance: Any) -> None:
    with pytest.raises(UserError, match="tolerance must be"):
        gym.make("DevicePlacement-v0", model="tiny", devices="cpu-testbed", tolerance=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["fused", "op"])
def test_a_quantised_model_is_profiled_on_devices_in_f32(granularity: str) -> None:
    tested = build_here(ModelSpec("cnn-int8", granularity), protocol=QUICK_PROFILE)
    table = measure_profile(tested)
    assert not tested.session.failures
    assert table.operator_ms.sum(axis=0).min() > 0


def test_every_split_of_a_quantised_model_in_f32_is_feasible() -> None:
    env = make("cnn-int8")
    n, rng = env.problem.n_units, np.random.default_rng(0)
    for _ in range(2):
        env.reset()
        info = env.step(rng.integers(0, 2, n))[4]
        assert info["error"] == ""
        assert info["n_submodels"] > 1


def test_the_built_in_quantised_network_is_the_float_one_rounded() -> None:
    image = np.random.default_rng(2).random((1, 3, 64, 64), dtype=np.float32)
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    plain, rounded = (
        ov.Core().compile_model(load_model(name), "CPU", config)(image)[0]
        for name in ("cnn", "cnn-int8")
    )
    assert 1e-4 < np.abs(plain - rounded).max() / np.abs(plain).max() < 0.1


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
    found, expected = [1.1 * ones, 2.6 * ones], [ones, 2 * ones]
    for step in (1, -1):
        assert relative_error(found[::step], expected[::step]) == pytest.approx(0.3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("position", [0, 1])
def test_relative_error_of_an_infinite_output_is_infinite(value: float, position: int) -> None:
    expected = [np.ones(3, np.float32), np.ones(3, np.float32)]
    found = [array.copy() for array in expected]
    found[position][1] = value
    assert relative_error(found, expected) == float("inf")
