"""Outputs behind a choice, such as a TopK, are compared for the choice that was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino as ov
import pytest
from choosing_models import make_argmax, make_detector, make_suppressed, make_threshold
from faulty_devices import FaultyCore
from numpy.typing import NDArray
from openvino import opset13 as ops

from placement_gym.backends.measured.assembly import find_supported
from placement_gym.backends.measured.choice_errors import ERRORS, WRONG
from placement_gym.backends.measured.choices import ChoosingModel
from placement_gym.backends.measured.in_process import MeasuredBackend
from placement_gym.backends.measured.operator_errors import list_known
from placement_gym.backends.measured.outputs import compare_outputs, error_of_steady
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.deployment.faults import FaultFinder
from placement_gym.graph.extract import extract
from placement_gym.graph.units import group
from placement_gym.hardware.devices import PRESETS, TESTBED
from placement_gym.models import load
from placement_gym.models.tensors import make_tensor
from placement_gym.problem.problem import Problem
from placement_gym.workloads.samples import sample_inputs

Array = NDArray[Any]
Make = Callable[..., ov.Model]
MODELS: list[Make] = [make_argmax, make_detector, make_suppressed, make_threshold]
LIMIT = 3e-2


def run(model: ov.Model, inputs: list[Any]) -> list[Array]:
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    found = ov.Core().compile_model(model, "CPU", exact)(dict(enumerate(inputs)))
    return [np.array(array) for array in found.values()]


def compare(model: ov.Model, other: ov.Model) -> tuple[float, float, float]:
    """Errors of another model's outputs: plain, for its own choices, and of these choices."""
    reference, inputs = ChoosingModel(model), sample_inputs(model)
    tapped = run(ChoosingModel(other).tapped, inputs)
    samples = reference.force([[inputs]], tapped)
    forced = run(reference.forced, samples[0][0])
    expected, errors = reference.find_errors(samples, forced, LIMIT)
    outputs = tapped[: reference.n_outputs]
    plain = error_of_steady(outputs, run(model, inputs))
    return plain, error_of_steady(outputs, expected), max(errors.values())


@pytest.mark.parametrize("make", MODELS)
def test_a_choice_among_nearly_equal_values_passes(make: Make) -> None:
    plain, given_choices, of_choices = compare(make(), make(noise=1e-2))
    assert plain > LIMIT
    assert max(given_choices, of_choices) < LIMIT


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_wrong_operator_before_or_behind_a_choice_is_found(make: Make, where: str) -> None:
    _, given_choices, of_choices = compare(make(), make(noise=1e-2, wrong=where))
    assert max(given_choices, of_choices) > LIMIT


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "right", "wrong"),
    [
        (
            "TopK",
            [[[1.0, 3.0, 2.999, 0.0]]],
            {"axis": 1, "mode": "max", "sort": "value"},
            [[[2, 1]], [[1, 2]]],
            [[[1, 0]], [[1, 1]], [[1, 4]], [[1, -1]]],
        ),
        (
            "TopK",
            [[[1.0, 3.0, 2.0, 0.0]]],
            {"axis": -1, "mode": "min", "sort": "none"},
            [[[3, 0]], [[0, 3]]],
            [[[1, 2]], [[0, 2]]],
        ),
        ("Convert", [[1.999, -0.5]], {"destination_type": "i32"}, [[2, 0], [1, 0]], [[3, 0]]),
        ("Convert", [[1.0, 1e-3]], {"destination_type": "boolean"}, [[1, 0], [1, 1]], [[0, 1]]),
        ("Greater", [[1.0, 2.0], [1.001, 1.0]], {}, [[False, True], [True, True]], [[False] * 2]),
    ],
)
def test_choices_are_judged_by_the_values_that_they_pick(
    kind: str, inputs: Any, attributes: dict[str, Any], right: Any, wrong: Any
) -> None:
    values = [np.array(array, np.float32) for array in inputs]
    port = 1 if kind == "TopK" else 0
    errors = [
        [ERRORS[kind](values, {port: np.array(chosen)}, attributes, 1e-2) for chosen in some]
        for some in (right, wrong)
    ]
    assert max(errors[0]) < 1e-2
    assert min(errors[1]) > 0.1


NMS = {"box_encoding": "corner", "sort_result_descending": True}


@pytest.mark.parametrize(
    ("selected", "explained"),
    [
        ([[0, 0, 0], [0, 0, 2]], True),
        ([[0, 0, 1], [0, 0, 2]], True),  # scores of 0 and 1 are nearly equal
        ([[0, 0, 0], [0, 0, 2], [0, 0, 3]], True),  # its score is at the threshold
        ([[0, 0, 0]], False),  # another box is missed
        ([[0, 0, 0], [0, 0, 1], [0, 0, 2]], False),  # nothing is suppressed
        ([[0, 0, 2], [0, 0, 0]], False),  # not in the order of scores
        ([[0, 0, 0], [0, 0, 2], [0, 0, 4]], False),  # far below the threshold
        ([[0, 0, 0], [0, 0, 0], [0, 0, 2]], False),
        ([[0, 0, 0], [0, 0, 9]], False),
    ],
)
def test_a_suppression_is_explained_by_rounding_or_not(selected: Any, explained: bool) -> None:
    corners = [[0, 0, 10, 10], [0, 0, 10, 10.1], [20, 0, 30, 10], [0, 20, 9, 30], [20, 20, 25, 25]]
    scores = np.array([[[0.9, 0.899, 0.5, 0.301, 0.1]]], np.float32)
    inputs = [np.array([corners], np.float32), scores, *map(np.array, (5, 0.5, 0.3))]
    outputs = {0: np.array(selected), 2: np.array([len(selected)])}
    error = ERRORS["NonMaxSuppression"](inputs, outputs, NMS, 5e-3)
    assert error == (0.0 if explained else WRONG)


def test_values_next_to_indices_are_compared_too() -> None:
    values, top = [np.array([1.0, -3.0, 2.0])], {"axis": 0, "mode": "max", "sort": "value"}
    right, negated = ({0: np.array(made), 1: np.array([2, 0])} for made in ([2, 1], [-2, -1]))
    assert ERRORS["TopK"](values, right, top, 1e-3) == 0.0
    assert ERRORS["TopK"](values, negated, top, 1e-3) > 1.0


def test_what_a_choice_reads_is_known_in_types_that_numpy_lacks() -> None:
    x, half = (ops.parameter([2], ov.Type.bf16, name="x"), ops.constant(0.5, ov.Type.bf16))
    model = ov.Model([ops.result(ops.greater(x, half))], [x], "model")
    (choice,) = ChoosingModel(model).choices
    known = list_known(model, [make_tensor(np.array([0.25, 0.75]), ov.Type.bf16)], [choice])
    read = [known[port].tolist() for port in choice.sources]
    assert read == [[0.25, 0.75], 0.5]


def test_the_rule_of_an_output_is_described() -> None:
    assert ChoosingModel(make_detector()).list_rules() == [
        "output 'boxes' stands behind TopK 'topk': compared for the placement's own choice, which "
        "has to be as good within the tolerance",
    ]


def test_rounding_is_not_excluded_where_the_number_is_an_index() -> None:
    labels = [np.array([3, 250])], [np.array([3, 251])], 1e-4
    assert "cannot explain" not in compare_outputs(*labels)
    assert "cannot explain" not in compare_outputs(
        [np.full(3, 0.5)], [np.ones(3)], 1e-4, None, {"TopK 'a'": 0.0}
    )


def build(core: ov.Core, devices: Any) -> MeasuredBackend:
    model = load(make_detector())
    units = group(extract(model), "op")
    supported = find_supported(units, [core.query_model(model, "CPU")] * 2)
    problem = Problem(units, devices, supported)
    return MeasuredBackend(core, model, problem, protocol=TimingProtocol(1, 2, 1))


def test_a_head_that_chooses_runs_on_a_device_of_lower_precision() -> None:
    tested = build(ov.Core(), PRESETS["cpu-testbed-bf16"])
    assert tested.evaluate(tested.problem.single(1)).error == ""
    found = FaultFinder(tested, 1).find()
    assert (found.faults, found.confirmed) == ([], True)


@pytest.mark.parametrize("name", ["box", "picked"])
def test_a_wrong_operator_is_blamed_and_no_choice(name: str) -> None:
    core = FaultyCore("CPU_FAST", wrong=[name])
    core.register_plugin("openvino_intel_cpu_plugin", "CPU_FAST")
    tested = build(core, TESTBED)
    found = FaultFinder(tested, 1).find()
    assert [tested.problem.units.names[fault.unit] for fault in found.faults] == [name]
    assert found.confirmed
