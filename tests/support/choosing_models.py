"""Heads that choose: a TopK over boxes, labels by the largest score, a suppression, a threshold.

``noise`` changes what they compute by as much relative, as devices of lower precision do; ``wrong``
negates something ``"before"`` the choice, or halves it ``"after"``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.utils.node_factory import NodeFactory

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
    """Boxes of three classes that a suppression selects, and their scores.

    Three, as the GPU of the tests transposes rows of 2 or 4 wrongly.
    """
    x, made = make_body(noise, wrong, 7)
    parts = ops.variadic_split(made, ops.constant(2), ops.constant([2, 2, 3]))
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


def make_fused(kind: str, noise: float = 0.0, wrong: str = "") -> ov.Model:
    """An operator that decodes, scores, suppresses and sorts ``N`` boxes, and what follows."""
    x, made = make_body(noise, wrong, 6)
    parts = ops.variadic_split(made, ops.constant(2), ops.constant([4, 2]))
    deltas = ops.subtract(parts.output(0), ops.constant(np.float32(0.5)))
    inputs, attributes = FUSED[kind](deltas, parts.output(1))
    fused = NodeFactory("opset13").create(kind, [as_output(one) for one in inputs], attributes)
    fused.set_friendly_name("fused")
    rows = ops.power(fused.output(0), ops.constant(np.float32(1.0)))
    results = [ops.result(scale(rows, wrong))]
    results += [ops.result(port) for port in fused.outputs()[1:]]
    return ov.Model(results, [x], kind)


def as_output(made: ov.Node | ov.Output | np.ndarray) -> ov.Output:
    if isinstance(made, np.ndarray):
        return ops.constant(made).output(0)
    return made.output(0) if isinstance(made, ov.Node) else made


def draw_anchors() -> np.ndarray:
    """(N, 4) corners of boxes in an image of 100 x 100."""
    rng = np.random.default_rng(2)
    low, size = rng.uniform(0, 80, (N, 2)), rng.uniform(10, 20, (N, 2))
    return np.concatenate([low, low + size], axis=1).astype(np.float32)


def reshape(data: ov.Output | ov.Node, *shape: int) -> ov.Node:
    return ops.reshape(data, ops.constant(list(shape)), False)


def as_map(data: ov.Output | ov.Node, per_box: int) -> ov.Node:
    """(1, N / 100 * per_box, 10, 10) of (1, N, per_box)."""
    return ops.transpose(reshape(data, 1, 10, 10, -1), ops.constant([0, 3, 1, 2]))


def decode(deltas: ov.Node) -> ov.Node:
    """(1, N, 4) boxes near the anchors."""
    moved = ops.multiply(deltas, ops.constant(np.float32(5.0)))
    return ops.add(moved, ops.constant(draw_anchors()))


IMAGE = np.array([[100.0, 100.0, 1.0]], np.float32)
MULTICLASS = {"score_threshold": 0.5, "sort_result_type": "score", "keep_top_k": 40}
FUSED: dict[str, Callable[[ov.Node, ov.Output], tuple[list[Any], dict[str, Any]]]] = {
    "MulticlassNms": lambda deltas, scores: (
        [decode(deltas), ops.transpose(scores, ops.constant([0, 2, 1]))],
        {**MULTICLASS, "iou_threshold": 0.3},
    ),
    "MatrixNms": lambda deltas, scores: (
        [decode(deltas), ops.transpose(scores, ops.constant([0, 2, 1]))],
        {**MULTICLASS, "post_threshold": 0.3},
    ),
    "DetectionOutput": lambda deltas, scores: (
        [reshape(deltas, 1, -1), reshape(scores, 1, -1), draw_anchors().reshape(1, 1, -1) / 100],
        {
            "keep_top_k": [40],
            "nms_threshold": 0.3,
            "confidence_threshold": 0.4,
            "top_k": 100,
            "background_label_id": -1,
            "code_type": "caffe.PriorBoxParameter.CENTER_SIZE",
            "share_location": True,
            "variance_encoded_in_target": True,
            "normalized": True,
        },
    ),
    "Proposal": lambda deltas, scores: (
        [as_map(scores, 2), as_map(deltas, 4), np.array([100.0, 100.0, 1.0], np.float32)],
        {
            "base_size": 10,
            "pre_nms_topn": 300,
            "post_nms_topn": 40,
            "nms_thresh": 0.3,
            "feat_stride": 10,
            "min_size": 1,
            "ratio": [0.5, 2.0],
            "scale": [1.0, 2.0],
        },
    ),
    "GenerateProposals": lambda deltas, scores: (
        [
            IMAGE,
            draw_anchors().reshape(10, 10, 4, 4),
            as_map(deltas, 4),
            as_map(ops.reduce_max(scores, ops.constant([2])), 1),
        ],
        {"min_size": 1.0, "nms_threshold": 0.3, "post_nms_count": 40, "pre_nms_count": 300},
    ),
    "ExperimentalDetectronGenerateProposalsSingleImage": lambda deltas, scores: (
        [
            IMAGE[0],
            draw_anchors(),
            ops.squeeze(as_map(deltas, 4), ops.constant([0])),
            ops.squeeze(as_map(ops.reduce_max(scores, ops.constant([2])), 1), ops.constant([0])),
        ],
        {"min_size": 1.0, "nms_threshold": 0.3, "post_nms_count": 40, "pre_nms_count": 300},
    ),
    "ExperimentalDetectronDetectionOutput": lambda deltas, scores: (
        [
            draw_anchors(),
            ops.concat([ops.squeeze(deltas, ops.constant([0]))] * 2, 1),
            ops.squeeze(scores, ops.constant([0])),
            IMAGE,
        ],
        {
            "score_threshold": 0.4,
            "nms_threshold": 0.3,
            "max_delta_log_wh": 2.0,
            "num_classes": 2,
            "post_nms_count": 60,
            "max_detections_per_image": 40,
            "class_agnostic_box_regression": False,
            "deltas_weights": [10.0, 10.0, 5.0, 5.0],
        },
    ),
    "ExperimentalDetectronTopKROIs": lambda deltas, scores: (
        [
            ops.squeeze(decode(deltas), ops.constant([0])),
            reshape(ops.reduce_max(scores, ops.constant([2])), N),
        ],
        {"max_rois": 40},
    ),
}
"""By kind, the inputs and attributes, from (1, N, 4) deltas and (1, N, 2) scores."""


def make_greedy(noise: float = 0.0, wrong: str = "", steps: int = 40) -> ov.Model:
    """A loop that takes the best of 32 tokens at each step, and goes on with what it stands for."""
    rng, factor = np.random.default_rng(2), OFF[wrong][0]
    x, state = (ops.parameter([1, 16], np.float32, name=name) for name in ("x", "state"))
    token = ops.parameter([1, 1], np.int64)
    weights = rng.normal(size=(16, 32))
    weights *= factor * (1.0 + noise * np.random.default_rng(1).uniform(-1, 1, weights.shape))
    table = ops.constant(rng.normal(size=(32, 16)).astype(np.float32))
    embedded = ops.squeeze(ops.gather(table, token, ops.constant(0)), ops.constant([0]))
    moved = ops.tanh(ops.add(state, embedded))
    logits = ops.matmul(moved, ops.constant(weights.astype(np.float32)), False, False)
    best = ops.topk(logits, ops.constant(np.int64(1)), 1, "max", "none", "i64")
    outputs = [ops.result(one) for one in (moved, best.output(1), ops.constant(True, dtype=bool))]
    node = ops.loop(ops.constant(np.int64(steps)), ops.constant(True, dtype=bool))
    node.set_function(ov.Model(outputs, [state, token], "body"))
    node.set_special_body_ports([-1, 2])
    node.set_merged_input(state, x.output(0), outputs[0].output(0))
    start = ops.constant(np.zeros((1, 1), np.int64))
    node.set_merged_input(token, start.output(0), outputs[1].output(0))
    tokens = node.get_concatenated_slices(outputs[1].output(0), 0, 1, 1, -1, 1)
    node.set_friendly_name("loop")
    numbers = ops.convert(tokens, "f32")
    return ov.Model([ops.result(tokens), ops.result(scale(numbers, wrong))], [x], "greedy")
