# White-box tests of workloads
"""Generated inputs: valid for the operators that read them, or asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import openvino as ov
import pytest
from control_flow import WIDTH, loop, parameter
from foreign_models import make_encoder
from numpy.typing import NDArray
from openvino import opset13 as ops

from placement_gym.base import PlacementGymWarning, UserError
from placement_gym.models import OwnInputs
from placement_gym.workloads import Inference, check_inputs, sample_inputs
from placement_gym.workloads.samples import vary

ROWS = 50
Read = Callable[[ov.Node], ov.Node]


def table(rows: int = ROWS) -> ov.Node:
    return ops.constant(np.ones((rows, 4), np.float32))


def integers(read: Read, shape: list[int], kind: Any = np.int64) -> NDArray[Any]:
    """What is generated for integers that an operator reads."""
    ids = ops.parameter(shape, kind, name="ids")
    (values,) = sample_inputs(ov.Model([ops.result(read(ids))], [ids], "model"))
    return np.asarray(values)


def by_axis(ids: ov.Node) -> ov.Node:
    return ops.gather(table(), ids, ops.constant(0))


def moved(ids: ov.Node) -> ov.Node:
    flat = ops.reshape(ops.convert(ids, "i32"), ops.constant([-1]), False)
    return by_axis(ops.unsqueeze(flat, ops.constant(0)))


def twice(ids: ov.Node) -> ov.Node:
    return ops.concat([by_axis(ids), ops.gather(table(7), ids, ops.constant(0))], 0)


def in_a_body(ids: ov.Node) -> ov.Node:
    inner = ops.parameter([1], np.int64)
    body = ov.Model([ops.result(by_axis(inner))], [inner], "body")
    node = ops.tensor_iterator()
    node.set_body(body)
    node.set_sliced_input(inner, ids.output(0), 0, 1, 1, -1, 0)
    node.get_concatenated_slices(body.get_results()[0].output(0), 0, 1, 1, -1, 0)
    return node


@pytest.mark.parametrize(
    ("read", "limit"),
    [
        (by_axis, ROWS),
        (moved, ROWS),
        (twice, 7),
        (in_a_body, ROWS),
        (lambda ids: ops.gather_elements(ops.constant(np.ones((ROWS, 1))), ids2(ids), 0), ROWS),
        (lambda ids: ops.gather_nd(table(), ids2(ids), 0), 4),
        (lambda ids: ops.one_hot(ids, ops.constant(9), ops.constant(1), ops.constant(0), 1), 9),
        (lambda ids: ops.embedding_bag_packed_sum(table(), ids2(ids)), ROWS),
    ],
)
def test_indices_are_any_of_the_table(read: Read, limit: int) -> None:
    values = integers(read, [300])
    assert values.min() == 0
    assert limit * 2 // 3 <= values.max() < limit


def ids2(ids: ov.Node) -> ov.Node:
    return ops.unsqueeze(ids, ops.constant(1))


def test_indices_stay_within_their_type() -> None:
    values = integers(lambda ids: ops.gather(table(1000), ids, ops.constant(0)), [300], np.int8)
    assert 80 < values.max() <= 127


def bags(offsets: ov.Node) -> ov.Node:
    return ops.embedding_bag_offsets_sum(table(), ops.constant(np.zeros(16, np.int64)), offsets)


def segments(ids: ov.Node) -> ov.Node:
    return ops.embedding_segments_sum(table(), ops.constant(np.zeros(8, np.int64)), ids, 4)


def sequence(lengths: ov.Node) -> ov.Node:
    data = ops.constant(np.ones((2, 7, 3), np.float32))
    state = ops.constant(np.zeros((2, 1, 5), np.float32))
    weights = [ops.constant(np.ones((1, 20, n), np.float32)) for n in (3, 5)]
    bias = ops.constant(np.ones((1, 20), np.float32))
    return ops.lstm_sequence(data, state, state, lengths, *weights, bias, 5, "forward")


def masked(lengths: ov.Node) -> ov.Node:
    positions = ops.range(ops.constant(0), ops.constant(6), ops.constant(1), "i64")
    return ops.less(ops.unsqueeze(positions, ops.constant(0)), ids2(lengths))


@pytest.mark.parametrize(
    ("read", "values"),
    [
        (bags, [0, 2, 4, 6, 8, 10, 12, 14]),
        (segments, [0, 0, 1, 1, 2, 2, 3, 3]),
        (sequence, [7, 7]),
        (masked, [6, 6]),
        (lambda ids: ops.reverse_sequence(table(5), ids, 1, 0), [5] * 4),
    ],
)
def test_offsets_do_not_fall_and_lengths_are_full(read: Read, values: list[int]) -> None:
    assert integers(read, [len(values)]).tolist() == values


def test_lengths_by_name_are_those_of_the_data() -> None:
    data = ops.parameter([2, 9, 3], np.float32, name="data")
    lengths = ops.parameter([2], np.int64, name="seq_lengths")
    outputs = [ops.result(ops.relu(data)), ops.result(ops.abs(lengths))]
    values = sample_inputs(ov.Model(outputs, [data, lengths], "model"))[1]
    assert np.asarray(values).tolist() == [9, 9]


def loop_of(times: ov.Node) -> ov.Model:
    start = parameter(1, WIDTH)
    return ov.Model([ops.result(loop(start, times))], [start, times], "model")


def check(model: ov.Model, given: Sequence[int] = ()) -> None:
    """Check the inputs of an inference, some of which are given."""
    samples = [dict.fromkeys(given, np.zeros(1))] if given else []
    check_inputs(Inference(own=OwnInputs(samples)), model)


@pytest.mark.parametrize("ask", [sample_inputs, check])
def test_counts_are_asked_for(ask: Any) -> None:
    with pytest.raises(UserError, match=r"'steps' decides how much Loop .*--inputs inputs\.npz"):
        ask(loop_of(ops.parameter([], np.int64, name="steps")))


def test_a_count_that_is_given_is_not_asked_for() -> None:
    check(loop_of(ops.parameter([], np.int64, name="steps")), given=[1])


def test_integers_of_no_known_meaning_are_named_once() -> None:
    names = ("flags", "input_ids", "attention_mask", "mode")
    inputs = [ops.parameter([4], np.int64, name=name) for name in names]
    readers = [by_axis(one) if one is inputs[1] else ops.abs(one) for one in inputs]
    model = ov.Model([ops.result(one) for one in readers], inputs, "model")
    with pytest.warns(PlacementGymWarning, match="'flags' and 'mode' are guessed, 0 or 1"):
        check(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(model, given=[0, 3])


def test_sizes_of_dynamic_inputs_decide_lengths() -> None:
    data = ops.parameter([-1, -1, 3], np.float32, name="data")
    ends = ops.parameter([-1], np.int64, name="ends")
    model = ov.Model([ops.result(ops.reverse_sequence(data, ends, 0, 1))], [data, ends], "m")
    sizes = {"data": (2, 9, 3), "ends": (2,)}
    assert [np.asarray(one).shape for one in sample_inputs(model, sizes)] == [(2, 9, 3), (2,)]
    assert np.asarray(sample_inputs(model, sizes)[1]).tolist() == [9, 9]
    with warnings.catch_warnings():  # they are no guess
        warnings.simplefilter("error")
        check_inputs(Inference(data_shapes=sizes), model)


@pytest.mark.parametrize("shape", [[1, 3, 40, 50], [40, 50, 4], [2, 40, 50, 1]])
def test_images_have_all_values_of_a_byte(shape: list[int]) -> None:
    image = ops.parameter(shape, np.uint8, name="image")
    model = ov.Model([ops.result(ops.convert(image, "f32"))], [image], "model")
    values = np.asarray(sample_inputs(model)[0])
    assert values.dtype == np.uint8
    assert (values.min(), values.max()) == (0, 255)
    with warnings.catch_warnings():  # they are no guess
        warnings.simplefilter("error")
        check(model)


def test_other_bytes_are_guessed() -> None:
    kinds = [([40, 50], np.uint8), ([1, 40, 50, 5], np.uint8), ([1, 3, 40, 50], np.int32)]
    for shape, kind in kinds:
        assert integers(ops.abs, shape, kind).max() == 1


def test_positions_count() -> None:
    masked_by = ops.parameter([2, 5], np.int64, name="position_ids")
    later = ops.less(masked_by, ops.constant(np.arange(5)))  # as for lengths
    (values,) = sample_inputs(ov.Model([ops.result(later)], [masked_by], "model"))
    assert np.asarray(values).tolist() == [[0, 1, 2, 3, 4]] * 2


def test_samples_of_other_seeds_differ() -> None:
    model = make_encoder()
    first, again, other = (
        np.asarray(sample_inputs(model, {"input_ids": (2, 5)}, seed)[0]) for seed in (0, 0, 1)
    )
    assert first.tolist() == again.tolist() != other.tolist()


def test_own_reals_are_varied_in_their_range_and_integers_kept() -> None:
    ids = np.array([3, 4])
    mask = np.array([0.0, -np.inf], np.float32)
    image = np.array([2.0, 5.0], np.float16)
    black = np.zeros(3, np.float32)
    sample = dict(enumerate([ids, mask, image, black]))
    varied: Iterator[Any] = iter(vary(sample, 1).values())
    assert next(varied) is ids
    assert next(varied) is mask
    other = next(varied)
    assert other.dtype == np.float16
    assert 2 <= other.min() < other.max() <= 5
    assert next(varied).any()
