"""Models in which the data decide the sizes of what operators return, as detectors end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openvino as ov
from foreign_models import draw_matrix, name_by_place
from openvino import opset13 as ops

WIDTH, N_BOXES, CLASSES = 16, 48, 3


def finish(name: str, inputs: list[ov.Node], *outputs: ov.Node | ov.Output) -> ov.Model:
    for node in inputs:
        node.output(0).get_tensor().set_names({node.get_friendly_name()})
    return name_by_place(ov.Model([ops.result(output) for output in outputs], inputs, name))


def draw_boxes(image: ov.Node) -> tuple[ov.Node, ov.Node]:
    """(1, N_BOXES, 4) boxes and (1, CLASSES, N_BOXES) scores of a small backbone."""
    rng = np.random.default_rng(0)
    kernel = rng.normal(0.0, 0.3, (WIDTH, 3, 3, 3)).astype(np.float32)
    x = ops.relu(ops.convolution(image, kernel, [2, 2], [1, 1], [1, 1], [1, 1]))
    x = ops.reshape(ops.adaptive_avg_pool(x, ops.constant([6, 8])), [1, WIDTH, N_BOXES], False)
    x = ops.transpose(x, ops.constant([0, 2, 1]))
    centres = ops.sigmoid(ops.matmul(x, draw_matrix(rng, WIDTH, 2), False, False))
    sizes = ops.multiply(ops.sigmoid(ops.matmul(x, draw_matrix(rng, WIDTH, 2), False, False)),
                         ops.constant(np.float32(0.1)))  # fmt: skip
    boxes = ops.concat([ops.subtract(centres, sizes), ops.add(centres, sizes)], 2)
    scores = ops.softmax(ops.matmul(x, draw_matrix(rng, WIDTH, CLASSES), False, False), 2)
    return boxes, ops.transpose(scores, ops.constant([0, 2, 1]))


def make_detector(threshold: float = 0.3, side: int = 32) -> ov.Model:
    """A detector that ends in NonMaxSuppression, and computes with the boxes that are left."""
    image = ops.parameter([1, 3, side, side], np.float32, name="image")
    boxes, scores = draw_boxes(image)
    nms = ops.non_max_suppression(
        boxes,
        scores,
        ops.constant(np.int64(10)),
        ops.constant(np.float32(0.5)),
        ops.constant(np.float32(threshold)),
        box_encoding="corner",
        output_type="i64",
        name="nms",
    )
    rows = ops.squeeze(ops.gather(nms.output(0), ops.constant([2]), ops.constant(1)), [1])
    left = ops.gather(ops.squeeze(boxes, [0]), rows, ops.constant(0), name="left")
    pixels = ops.multiply(left, ops.constant(np.float32(side)), name="pixels")
    return finish("detector", [image], pixels, nms.output(1), nms.output(2))


def make_multiclass_detector(matrix: bool = False) -> ov.Model:
    """As ``make_detector``, with the operators of other exporters."""
    image = ops.parameter([1, 3, 32, 32], np.float32, name="image")
    boxes, scores = draw_boxes(image)
    suppress = ops.matrix_nms if matrix else ops.multiclass_nms
    options = {"iou_threshold": 0.5} if not matrix else {}
    nms = suppress(
        boxes, scores, score_threshold=0.3, background_class=-1, output_type="i64", **options
    )
    wide = ops.matmul(nms.output(0), draw_matrix(np.random.default_rng(1), 6, 8), False, False)
    return finish("multiclass", [image], ops.tanh(wide), nms.output(1), nms.output(2))


def make_picked_rows(n_rows: int = 12) -> ov.Model:
    """Rows that a score picks by NonZero go through a layer, and back to where they were."""
    rng = np.random.default_rng(0)
    x = ops.parameter([n_rows, WIDTH], np.float32, name="x")
    hidden = ops.tanh(ops.matmul(x, draw_matrix(rng, WIDTH, WIDTH), False, False))
    score = ops.squeeze(ops.matmul(hidden, draw_matrix(rng, WIDTH, 1), False, False), [1])
    picked = ops.non_zero(ops.greater(score, ops.constant(np.float32(0.0))), "i64", name="picked")
    rows = ops.squeeze(picked, [0])
    taken = ops.gather(hidden, rows, ops.constant(0), name="taken")
    deep = ops.relu(ops.matmul(taken, draw_matrix(rng, WIDTH, WIDTH), False, False), name="deep")
    put = ops.scatter_update(hidden, rows, deep, ops.constant(0), name="put")
    return finish("picked_rows", [x], ops.relu(put), deep)


def make_routed_experts(n_experts: int = 3) -> ov.Model:
    """A mixture of experts as PyTorch exports it: each takes the rows that NonZero finds for it."""
    rng = np.random.default_rng(0)
    x = ops.parameter([8, WIDTH], np.float32, name="x")
    gates = ops.softmax(ops.matmul(x, draw_matrix(rng, WIDTH, n_experts), False, False), 1)
    best = ops.topk(gates, ops.constant(1), 1, "max", "value", "i64")
    total: ov.Node = ops.multiply(x, ops.constant(np.float32(0.0)))
    for expert in range(n_experts):
        own = ops.equal(ops.squeeze(best.output(1), [1]), ops.constant(np.int64(expert)))
        rows = ops.squeeze(ops.non_zero(own, "i64", name=f"rows{expert}"), [0])
        taken = ops.gather(x, rows, ops.constant(0))
        made = ops.relu(ops.matmul(taken, draw_matrix(rng, WIDTH, WIDTH), False, False))
        weight = ops.gather(best.output(0), rows, ops.constant(0))
        places = ops.broadcast(ops.unsqueeze(rows, [1]), ops.shape_of(made, "i64"))
        total = ops.scatter_elements_update(
            total, places, ops.multiply(made, weight), ops.constant(0), "sum", True
        )
    return finish("routed_experts", [x], ops.tanh(total))


def make_distinct() -> ov.Model:
    """The distinct elements of a rounded product."""
    rng = np.random.default_rng(0)
    x = ops.parameter([6, WIDTH], np.float32, name="x")
    whole = ops.round(ops.matmul(x, draw_matrix(rng, WIDTH, 4), False, False), "half_to_even")
    unique = ops.unique(whole, name="unique")
    return finish("distinct", [x], ops.exp(ops.negative(unique.output(0))), unique.output(3))


MAKERS: dict[str, Callable[[], ov.Model]] = {
    "NonMaxSuppression": make_detector,
    "finds nothing": lambda: make_detector(threshold=2.0),
    "MulticlassNms": make_multiclass_detector,
    "MatrixNms": lambda: make_multiclass_detector(matrix=True),
    "NonZero": make_picked_rows,
    "experts": make_routed_experts,
    "Unique": make_distinct,
    "any image": lambda: make_detector(side=-1),
}
SIZES = {"any image": {"data_shapes": {"image": [1, 3, 32, 40]}}}


def make_routed_decoder() -> ov.Model:
    """A language model with a state, in which NonZero picks the tokens that a layer computes."""
    rng = np.random.default_rng(0)
    tokens = ops.parameter([1, -1], np.int64, name="input_ids")
    x = ops.gather(draw_matrix(rng, 8, WIDTH), tokens, ops.constant(0))
    past = ops.read_value(ops.constant(np.zeros((1, 0, WIDTH), np.float32)), "past", np.float32,
                          [1, -1, WIDTH])  # fmt: skip
    seen = ops.concat([past, x], 1)
    scores = ops.softmax(ops.matmul(x, seen, False, True), -1)
    flat = ops.reshape(ops.matmul(scores, seen, False, False), [-1, WIDTH], False)
    score = ops.squeeze(ops.matmul(flat, draw_matrix(rng, WIDTH, 1), False, False), [1])
    picked = ops.non_zero(ops.greater(score, ops.constant(np.float32(0.0))), "i64", name="picked")
    rows = ops.squeeze(picked, [0])
    taken = ops.gather(flat, rows, ops.constant(0))
    deep = ops.relu(ops.matmul(taken, draw_matrix(rng, WIDTH, WIDTH), False, False))
    put = ops.scatter_update(flat, rows, deep, ops.constant(0))
    logits = ops.matmul(put, draw_matrix(rng, WIDTH, 8), False, False)
    tokens.output(0).get_tensor().set_names({"input_ids"})
    state = ops.assign(seen, "past")
    return name_by_place(ov.Model([ops.result(logits)], [state], [tokens], "routed_decoder"))
