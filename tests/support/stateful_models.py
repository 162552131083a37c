"""Models with state from outside the zoo: decoders, one of them a state space, and a detector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.op.util import Variable, VariableInfo

WIDTH, WORDS, WINDOW = 8, 20, 4


def make_matrix(rows: int, columns: int, seed: int = 0) -> ov.Node:
    values = np.random.default_rng(seed).standard_normal((rows, columns)) / 3
    return ops.constant(values.astype(np.float32))


def make_state(name: str, first: ov.Node, shape: list[int]) -> tuple[ov.Node, Variable]:
    """The reading of a state, and the state."""
    info = VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape(shape), ov.Type.f32, name
    variable = Variable(info)
    return ops.read_value(first, variable, name=name), variable


def count_sequences(data: ov.Node, *sizes: int) -> ov.Node:
    """A shape of as many sequences as an input has."""
    batch = ops.gather(ops.shape_of(data), ops.constant([0]), ops.constant(0))
    return ops.concat([batch, ops.constant(np.array(sizes, np.int64))], 0)


def make_cross_attention(
    tokens: str = "input_ids", encoder: str = "encoder_hidden_states", mask: bool = False
) -> ov.Model:
    """A decoder of one layer: attention to a growing state, and to what an encoder made.

    Args:
        tokens: Name of the tokens; an input of real numbers unless it is ``"input_ids"``.
        encoder: Name of the encoder's output.
        mask: Whether the encoder's output has a mask of its own.
    """
    is_ids = tokens == "input_ids"
    new = (
        ops.parameter([-1, -1], np.int64, name=tokens)
        if is_ids
        else ops.parameter([-1, -1, WIDTH], np.float32, name=tokens)
    )
    read = ops.parameter([-1, -1, WIDTH], np.float32, name=encoder)
    inputs = [new, read]
    row = ops.gather(make_matrix(WORDS, WIDTH), new, ops.constant(0)) if is_ids else new
    zero = ops.constant(np.float32(0))
    empty = ops.broadcast(zero, count_sequences(new, 0, WIDTH))
    past, variable = make_state("past", empty, [-1, -1, WIDTH])
    grown = ops.concat([past, ops.relu(row, name="own")], 1)
    row = ops.add(row, attend(row, grown, None), name="self")
    bias = None
    if mask:
        inputs.append(ops.parameter([-1, -1], np.int64, name="encoder_attention_mask"))
        bias = ops.log(ops.unsqueeze(ops.convert(inputs[-1], "f32"), ops.constant(1)))
    row = ops.add(row, attend(row, ops.relu(read, name="read"), bias), name="cross")
    logits = ops.matmul(row, make_matrix(WIDTH, WORDS, 1), False, False, name="logits")
    return finish(logits, [ops.assign(grown, variable)], inputs)


def attend(row: ov.Node, to: ov.Node, bias: ov.Node | None) -> ov.Node:
    scores = ops.matmul(row, to, False, True)
    scores = scores if bias is None else ops.add(scores, bias)
    return ops.matmul(ops.softmax(scores, 2), to, False, False)


def make_voice_detector() -> ov.Model:
    """A probability for each part of a signal, with a state of constant size."""
    part = ops.parameter([-1, -1], np.float32, name="audio")
    zero = ops.constant(np.float32(0))
    past, variable = make_state(
        "past", ops.broadcast(zero, count_sequences(part, WIDTH)), [-1, WIDTH]
    )
    windows = np.random.default_rng(0).standard_normal((WIDTH, 1, 64)).astype(np.float32)
    found = ops.convolution(
        ops.unsqueeze(part, ops.constant(1)), ops.constant(windows), [32], [0], [0], [1]
    )
    mean = ops.reduce_mean(found, ops.constant([2]), name="mean")
    state = ops.tanh(ops.add(mean, ops.matmul(past, make_matrix(WIDTH, WIDTH), False, False)))
    speech = ops.sigmoid(ops.reduce_mean(state, ops.constant([1]), True), name="speech")
    return finish(speech, [ops.assign(state, variable)], [part])


def make_state_space() -> ov.Model:
    """A decoder whose state is the last rows, with the inputs of exported state space models.

    The mask counts new tokens alone, and the positions of a prompt are the places of the state.
    """
    ids, mask = (
        ops.parameter([-1, -1], np.int64, name=name) for name in ("input_ids", "attention_mask")
    )
    positions = ops.parameter([-1], np.int64, name="cache_position")
    beams = ops.parameter([-1], np.int32, name="beam_idx")
    row = ops.gather(make_matrix(WORDS, WIDTH), ids, ops.constant(0))
    row = ops.multiply(row, ops.unsqueeze(ops.convert(mask, "f32"), ops.constant(2)))
    empty = ops.broadcast(ops.constant(np.float32(0)), count_sequences(ids, WINDOW, WIDTH))
    past, variable = make_state("past", empty, [-1, WINDOW, WIDTH])
    past = ops.gather(past, beams, ops.constant(0))
    # As many of the last rows as there are positions take these places.
    first = ops.negative(ops.shape_of(positions))
    end, one = ops.constant([2**31 - 1]), ops.constant([1])
    last = ops.slice(ops.concat([past, row], 1), first, end, one, one)
    shifted = ops.gather(past, ops.constant(np.roll(np.arange(WINDOW), -1)), ops.constant(1))
    places = ops.clamp(positions, 0, WINDOW - 1)
    state = ops.scatter_update(shifted, places, last, ops.constant(1), name="state")
    row = ops.add(row, ops.reduce_mean(state, ops.constant([1]), True))
    logits = ops.matmul(row, make_matrix(WIDTH, WORDS, 1), False, False, name="logits")
    return finish(logits, [ops.assign(state, variable)], [ids, mask, positions, beams])


def finish(output: ov.Node, sinks: Sequence[ov.Node], inputs: Sequence[ov.Node]) -> ov.Model:
    for one in inputs:
        one.output(0).get_tensor().set_names({one.get_friendly_name()})
    return ov.Model([ops.result(output)], list(sinks), list(inputs), "stateful")
