# White-box tests of backends.measured
"""Outputs behind a choice, such as a TopK, are compared for the choice that was made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import openvino as ov
import pytest
from choosing_models import (
    FUSED,
    make_argmax,
    make_detector,
    make_fused,
    make_greedy,
    make_suppressed,
    make_threshold,
)
from control_flow import WIDTH, loop, model_of, parameter
from faulty_devices import FaultyCore
from numpy.typing import NDArray
from openvino import opset13 as ops
from testbed import measure_here

from placement_gym.backends.measured import MeasuredBackend, TimingProtocol, find_supported
from placement_gym.backends.measured.choice_errors import ERRORS, WRONG
from placement_gym.backends.measured.choices import ChoosingModel
from placement_gym.backends.measured.operator_errors import list_known
from placement_gym.backends.measured.outputs import compare_outputs, error_of_steady
from placement_gym.deployment import FaultFinder
from placement_gym.graph import extract, group
from placement_gym.hardware import PRESETS, TESTBED
from placement_gym.models import load_model, make_tensor
from placement_gym.problem import Problem
from placement_gym.workloads import sample_inputs

Array = NDArray[Any]
Make = Callable[..., ov.Model]
MODELS: dict[str, Make] = {
    "ArgMax": make_argmax,
    "TopK": make_detector,
    "NonMaxSuppression": make_suppressed,
    "Greater": make_threshold,
    "Loop": make_greedy,
    **{kind: partial(make_fused, kind) for kind in FUSED},
}
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


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_choice_among_nearly_equal_values_passes(make: Make) -> None:
    plain, given_choices, of_choices = compare(make(), make(noise=1e-2))
    assert plain > LIMIT
    assert max(given_choices, of_choices) < LIMIT


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
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
        (
            "ExperimentalDetectronTopKROIs",
            [[[0, 0, 10, 10], [20, 0, 30, 10], [0, 20, 10, 30]], [0.9, 0.899, 0.1]],
            {},
            [[[0, 0, 10, 10]], [[20, 0.05, 30, 10]], [[20, 0, 30, 10], [0, 0, 10, 10]]],
            [[[0, 20, 10, 30]], [[50, 0, 60, 10]]],
        ),
        ("Greater", [[1.0, 2.0], [1.001, 1.0]], {}, [[False, True], [True, True]], [[False] * 2]),
    ],
)
def test_choices_are_judged_by_the_values_that_they_pick(
    kind: str, inputs: Any, attributes: dict[str, Any], right: Any, wrong: Any
) -> None:
    values = {index: np.array(array, np.float32) for index, array in enumerate(inputs)}
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
    error = ERRORS["NonMaxSuppression"](dict(enumerate(inputs)), outputs, NMS, 5e-3)
    assert error == (0.0 if explained else WRONG)


ROWS = [
    [0, 0.9, 0, 0, 10, 10],
    [0, 0.5, 20, 0, 30, 10],
    [0, 0.4, 40, 0, 50, 10],
    [1, 0.8, 0, 0, 10, 10],
]


@pytest.mark.parametrize(
    ("rows", "explained"),
    [
        ([ROWS[3], *ROWS[:3]], True),  # in another order
        ([[0, 0.899, 0, 0, 10, 9.99], *ROWS[1:]], True),
        ([*ROWS, [0, 0.301, 60, 0, 70, 10]], True),  # its score is at the threshold
        ([ROWS[0], [0, 0.501, 22, 0, 32, 10], *ROWS[2:]], True),  # it suppresses the other
        ([*ROWS[:3], *[[-1] * 6] * 2], False),
        ([*ROWS, *[[-1] * 6] * 2], True),  # padding
        ([*ROWS[:2], ROWS[3]], False),  # one is missed
        ([*ROWS, [0, 0.45, 60, 0, 70, 10]], False),
        ([*ROWS, [0, 0.4, 41, 0, 51, 10]], False),  # nothing is suppressed
        ([*ROWS[:3], [0, 0.8, 0, 0, 10, 10]], False),  # another label
        ([[label, score, *(9 * side for side in box)] for label, score, *box in ROWS], False),
        ([], False),
    ],
)
def test_rows_are_those_of_the_reference_or_rounding_explains_them(
    rows: Any, explained: bool
) -> None:
    limits = {"iou_threshold": 0.5, "score_threshold": 0.3, "keep_top_k": -1, "nms_top_k": 400}
    own, outputs = ({0: np.reshape(made, (-1, 6))} for made in (ROWS, rows))
    error = ERRORS["MulticlassNms"](own, outputs, limits, 5e-3)
    assert error == (0.0 if explained else WRONG)


def test_of_rows_that_score_alike_half_have_to_be_the_same() -> None:
    limits = {"iou_threshold": 0.5, "score_threshold": 0.3, "keep_top_k": 4, "nms_top_k": -1}
    candidates = np.array([[0, 0.7, x, 0, x + 10, 10] for x in range(0, 100, 20)], np.float32)
    elsewhere = candidates + np.array([0, 0, 0, 50, 0, 50], np.float32)
    suppress = partial(ERRORS["MulticlassNms"], {0: candidates[:4]})
    assert suppress({0: candidates[1:]}, limits, 1e-3) == 0.0
    assert suppress({0: np.concatenate([candidates[:2], elsewhere[:2]])}, limits, 1e-3) == 0.0
    assert suppress({0: elsewhere[:4]}, limits, 1e-3) == WRONG


@pytest.mark.parametrize(
    ("labels", "numbers", "error"),
    [
        ([4, 8, 9], [1.0, 2.0], 0.0),
        ([4, 8, 9], [1.0, 1.0], 0.5),  # nothing was chosen otherwise
        ([4, 8, 7], [1.0, 2.01], 0.0),
        ([4, 8], [1.0, 2.0], 0.0),  # it stopped before
        ([4, 7, 7], [1.0, 2.0], WRONG),
        ([4, 8, 9, 0, 0, 0, 0], [1.0, 2.0], WRONG),
        ([4, 8, 7], [2.0, 1.0], WRONG),
    ],
)
def test_labels_of_a_loop_are_compared_by_the_share_of_equal_ones(
    labels: list[int], numbers: list[float], error: float
) -> None:
    own = {0: np.array([4, 8, 9]), 1: np.array([1.0, 2.0])}
    outputs = {0: np.array(labels), 1: np.array(numbers)}
    assert ERRORS["Loop"](own, outputs, {}, 1e-2) == error


def test_control_flow_chooses_if_its_body_does() -> None:
    x = parameter(1, WIDTH)
    plain = model_of(loop(x, ops.constant(np.int64(2))), x)
    assert ChoosingModel(plain).choices == []
    assert [str(choice) for choice in ChoosingModel(make_greedy()).choices] == ["Loop 'loop'"]


def pad(array: Array, size: int) -> Array:
    """Rows as a GPU returns them, which fills the free ones with -1."""
    return np.concatenate([array, np.full((size - len(array), array.shape[1]), -1, array.dtype)])


def test_rows_that_a_device_leaves_free_are_no_rows() -> None:
    chosen, inputs = ChoosingModel(make_suppressed()), sample_inputs(make_suppressed())
    boxes, scores, index, again = run(chosen.tapped, inputs)
    size = len(index) + 7
    behind = np.concatenate([boxes, np.zeros((7, 4), np.float32)])
    tapped = [behind, *(pad(array, size) for array in (scores, index, again))]
    samples = chosen.force([[inputs]], tapped)
    expected, errors = chosen.find_errors(samples, run(chosen.forced, samples[0][0]), LIMIT)
    assert list(errors.values()) == [0.0]
    assert error_of_steady(chosen.trim(tapped[:2], expected, tapped), expected) == 0.0
    missed = [array[40:] for array in tapped]
    samples = chosen.force([[inputs]], missed)
    _, errors = chosen.find_errors(samples, run(chosen.forced, samples[0][0]), LIMIT)
    assert list(errors.values()) == [WRONG]


def test_more_rows_than_chosen_are_not_cut_off() -> None:
    chosen, inputs = ChoosingModel(make_suppressed()), sample_inputs(make_suppressed())
    tapped = run(chosen.tapped, inputs)
    longer = [np.concatenate([array, array[:1]]) for array in tapped[:2]]
    assert chosen.trim(longer, tapped[:2], tapped) is longer


def test_values_next_to_indices_are_compared_too() -> None:
    values, top = {0: np.array([1.0, -3.0, 2.0])}, {"axis": 0, "mode": "max", "sort": "value"}
    right, negated = ({0: np.array(made), 1: np.array([2, 0])} for made in ([2, 1], [-2, -1]))
    assert ERRORS["TopK"](values, right, top, 1e-3) == 0.0
    assert ERRORS["TopK"](values, negated, top, 1e-3) > 1.0


def test_what_a_choice_reads_is_known_in_types_that_numpy_lacks() -> None:
    x, half = (ops.parameter([2], ov.Type.bf16, name="x"), ops.constant(0.5, ov.Type.bf16))
    model = ov.Model([ops.result(ops.greater(x, half))], [x], "model")
    (choice,) = ChoosingModel(model).choices
    known = list_known(model, [make_tensor(np.array([0.25, 0.75]), ov.Type.bf16)], [choice])
    read = [known[port].tolist() for port in choice.sources.values()]
    assert read == [[0.25, 0.75], 0.5]


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_a_mask_of_whole_numbers_is_no_choice(scale: float) -> None:
    mask = ops.parameter([1, 4], np.int64, name="mask")
    ones = ops.convert(mask, "f32")
    if scale != 1.0:
        ones = ops.multiply(ones, np.float32(scale))
    hidden = ops.convert(ops.subtract(np.float32(1.0), ones), "boolean")
    model = ov.Model([ops.result(hidden)], [mask], "model")
    assert [choice.kind for choice in ChoosingModel(model).choices] == ["Convert"] * (scale != 1.0)


def test_the_rule_of_an_output_is_described() -> None:
    assert ChoosingModel(make_detector()).list_rules() == [
        "output 'boxes' stands behind TopK 'topk': compared for the placement's own choice, which "
        "has to be as good within the tolerance",
    ]
    rules = [*ChoosingModel(make_fused("MatrixNms")).list_rules()[:1],
             *ChoosingModel(make_greedy()).list_rules()[:1]]  # fmt: skip
    assert [rule.partition("choice, ")[2] for rule in rules] == [
        "whose rows have to be the reference's within the tolerance, or nearly tie",
        "of which half has to be the reference's within the tolerance",
    ]


def test_rounding_is_not_excluded_where_the_number_is_an_index() -> None:
    labels = [np.array([3, 250])], [np.array([3, 251])], 1e-4
    assert "cannot explain" not in compare_outputs(*labels)
    assert "cannot explain" not in compare_outputs(
        [np.full(3, 0.5)], [np.ones(3)], 1e-4, None, {"TopK 'a'": 0.0}
    )


def build(core: ov.Core, devices: Any, model: ov.Model | None = None) -> MeasuredBackend:
    model = load_model(model or make_detector())
    units = group(extract(model), "op")
    supported = find_supported(units, [core.query_model(model, "CPU")] * 2)
    problem = Problem(units, devices, supported)
    return measure_here(core, model, problem, protocol=TimingProtocol(1, 2, 1))


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


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_scattered_placements_of_heads_that_choose_pass(make: Make) -> None:
    tested, rng = build(ov.Core(), PRESETS["cpu-testbed-bf16"], make()), np.random.default_rng(0)
    for _ in range(3):
        assert tested.evaluate(rng.integers(0, 2, tested.problem.n_units)).error == ""
