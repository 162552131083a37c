"""Heads that choose: a TopK over boxes, labels by the largest score, a suppression, a threshold.

``noise`` changes what they compute by as much relative, as devices of lower precision do; ``wrong``
negates something ``"before"`` the choice, or halves it ``"after"``.
"""

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset13 as ops

N = 400
"""Candidates, of which many score alike."""
OFF = {"before": (-1.0, 1.0), "after": (1.0, 0.5), "": (1.0, 1.0)}


def make_body(noise: float, wrong: str, n_outputs: int, n: int = N) -> tuple[ov.Node, ov.Node]:
    """The input, and (1, n, n_outputs) numbers between 0 and 1."""
    rng, factor = np.random.default_rng(0), OFF[wrong][0]
    x = ops.parameter([1, 16], np.float32, name="x")
    weights = rng.normal(size=(16, n * n_outputs)) * 0.3
    weights *= factor * (1.0 + noise * np.random.default_rng(1).uniform(-1, 1, weights.shape))
    flat = ops.matmul(x, ops.constant(weights.astype(np.float32)), False, False)
    return x, ops.reshape(ops.sigmoid(flat), ops.constant([1, n, n_outputs]), False)


def scale(node: ov.Node, wrong: str) -> ov.Node:
    return ops.multiply(node, ops.constant(np.float32(OFF[wrong][1])))


def make_detector(noise: float = 0.0, wrong: str = "", n: int = N) -> ov.Model:
    """The 50 of ``n`` boxes that score most."""
    x, made = make_body(noise, wrong, 5, n)
    split = ops.variadic_split(made, ops.constant(2), ops.constant([4, 1]))
    boxes = ops.relu(ops.squeeze(split.output(0), ops.constant(0)), name="box")
    scores = ops.relu(ops.squeeze(split.output(1), ops.constant([0, 2])), name="score")
    top = ops.topk(scores, ops.constant(np.int64(50)), 0, "max", "value", name="topk")
    picked = ops.gather(boxes, top.output(1), ops.constant(0), name="picked")
    result = ops.result(scale(picked, wrong), name="boxes")
    result.output(0).set_names({"boxes"})
    return ov.Model([result], [x], "detector")


def make_argmax(noise: float = 0.0, wrong: str = "") -> ov.Model:
    """The label of each of ``N`` pixels, of 8 that score alike, and something behind it."""
    x, made = make_body(noise, wrong, 8)
    top = ops.topk(made, ops.constant(np.int64(1)), 2, "max", "none", name="argmax")
    label = ops.convert(top.output(1), "f32")
    return ov.Model([ops.result(top.output(1)), ops.result(scale(label, wrong))], [x], "argmax")


def make_threshold(noise: float = 0.0, wrong: str = "") -> ov.Model:
    """The rows that score above a threshold, at which some are."""
    x, made = make_body(noise, wrong, 2)
    first = ops.gather(made, ops.constant(0), ops.constant(2))
    above = ops.greater(first, ops.constant(np.float32(0.5)), name="above")
    index = ops.gather(ops.non_zero(above, "i64"), ops.constant(1), ops.constant(0))
    rows = ops.gather(ops.squeeze(made, ops.constant(0)), index, ops.constant(0))
    return ov.Model([ops.result(scale(rows, wrong))], [x], "threshold")


def make_suppressed(noise: float = 0.0, wrong: str = "") -> ov.Model:
    """Boxes of two classes that a suppression selects, and their scores."""
    x, made = make_body(noise, wrong, 6)
    parts = ops.variadic_split(made, ops.constant(2), ops.constant([2, 2, 2]))
    centre, size, scores = (parts.output(port) for port in range(3))
    size = ops.add(ops.multiply(size, ops.constant(np.float32(0.2))), ops.constant(np.float32(0.1)))
    boxes = ops.concat([centre, ops.add(centre, size)], 2)
    limits = [ops.constant(np.float32(limit)) for limit in (0.5, 0.5)]
    selected = ops.non_max_suppression(
        boxes, ops.transpose(scores, ops.constant([0, 2, 1])), ops.constant(np.int64(N)), *limits
    )
    index = ops.gather(selected.output(0), ops.constant(2), ops.constant(1))
    rows = ops.gather(ops.squeeze(boxes, ops.constant(0)), index, ops.constant(0))
    results = [ops.result(scale(rows, wrong)), ops.result(selected.output(1))]
    return ov.Model(results, [x], "suppressed")
