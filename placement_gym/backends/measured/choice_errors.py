"""Errors of choices, by type of operator.

A device of lower precision may choose the other of two nearly equal values. Different indices are
then no error: the reference's values at these indices decide. Operators that choose inside return
no indices. Their results are compared with the reference's for the same inputs: boxes as sets of
rows, labels from a loop by the share of equal elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.backends.measured.outputs import relative_error, relative_to
from placement_gym.base import BoolArray, FloatArray

Array = NDArray[Any]
Arrays = Mapping[int, Array]
"""Index -> input or output, of those that are known."""
Attributes = Mapping[str, Any]
Error = Callable[[Arrays, Arrays, Attributes, float], float]
"""Relative error of an operator's outputs. Arguments: the reference's inputs, or its outputs if the
operator chooses inside; the outputs; attributes; the largest error of values. Where boxes or labels
are compared, the result is 0 if that error explains the outputs, else ``WRONG``."""
WRONG = 1.0
"""Relative error of indices that rounding does not explain."""
MIN_SHARE = 0.5
"""Share of elements, or rows, that have to equal the reference's. Hand-tuned: after the first other
label a loop diverges, and candidates with equal scores replace each other."""
BOX = ("left", "top", "right", "bottom")
COLUMNS = ("image", "label", "score", *BOX)
IMAGE, LABEL, SCORE, LEFT = range(4)
"""Columns of rows, of which the box is the last four."""


def topk_error(inputs: Arrays, outputs: Arrays, attributes: Attributes, limit: float) -> float:
    """Compare the values at chosen indices with the best, in order if sorted by value."""
    axis, indices = attributes["axis"], outputs[1].astype(np.int64)
    sign = 1.0 if attributes["mode"] == "min" else -1.0
    values = sign * inputs[0].astype(np.float64)
    size, count = values.shape[axis], indices.shape[axis]
    ascending = np.sort(indices, axis=axis)
    if count and (ascending.min() < 0 or ascending.max() >= size):
        return WRONG
    if not np.diff(ascending, axis=axis).all():
        return WRONG
    chosen = np.take_along_axis(values, indices, axis)
    ordered = chosen if attributes["sort"] == "value" else np.sort(chosen, axis=axis)
    best = np.take(np.sort(values, axis=axis), np.arange(count), axis)
    differences = [ordered - best]
    if 0 in outputs:
        differences.append(sign * outputs[0].astype(np.float64) - chosen)
    return max(relative_to(values, difference) for difference in differences)


def comparison_error(compare: Callable[..., Any]) -> Error:
    """Make the error of a comparison: the distance of two values where its result differs."""

    def error(inputs: Arrays, outputs: Arrays, attributes: Attributes, limit: float) -> float:
        first, second = (inputs[index].astype(np.float64) for index in (0, 1))
        if outputs[0].shape != np.broadcast_shapes(first.shape, second.shape):
            return WRONG
        other = compare(first, second) != outputs[0].astype(np.bool_)
        return relative_to(np.append(first, second), np.where(other, first - second, 0.0))

    return error


def convert_error(inputs: Arrays, outputs: Arrays, attributes: Attributes, limit: float) -> float:
    """The distance of numbers to the nearest that convert to these integers, or truth values."""
    values, whole = inputs[0].astype(np.float64), outputs[0].astype(np.float64)
    if values.shape != whole.shape:
        return WRONG
    if attributes["destination_type"] == "boolean":
        return relative_to(values, np.where(whole == 0.0, values, 0.0))
    # Conversion cuts the fraction off: -1.9 and 1.9 become -1 and 1, and all between them 0.
    low, high = whole - (whole <= 0.0), whole + (whole >= 0.0)
    return relative_to(values, np.maximum(low - values, values - high).clip(min=0.0))


def nms_error(inputs: Arrays, outputs: Arrays, attributes: Attributes, limit: float) -> float:
    """Return 0 if errors of boxes and scores of up to ``limit`` explain the selection.

    Greedy suppression, within the limit: selected boxes of a class do not overlap by more than the
    threshold; every other box that scores above its threshold overlaps with a selected one that
    scores no less, or the maximum number of boxes score no less.
    """
    # Missing limits are 0, as in OpenVINO. Each selected box exists and is named once.
    boxes, scores = (inputs[index].astype(np.float64) for index in (0, 1))
    limits = [float(inputs[index].max()) for index in (2, 3, 4) if index in inputs]
    most, max_overlap, min_score = (*limits, 0.0, 0.0, 0.0)[:3]
    selected = outputs[0].astype(np.int64)
    within = (selected >= 0) & (selected < [*scores.shape[:2], scores.shape[2]])
    if not within.all() or len(np.unique(selected, axis=0)) < len(selected):
        return WRONG
    # The other outputs, scores and number of the selected boxes, agree with them.
    score_slack, box_slack = limit * np.abs(scores).max(), limit * np.abs(boxes).max()
    found = scores[tuple(selected.T)]
    if 1 in outputs and not np.allclose(outputs[1][:, 2], found, rtol=0.0, atol=score_slack):
        return WRONG
    if 2 in outputs and outputs[2].max(initial=0) != len(selected):
        return WRONG
    if attributes["sort_result_descending"] and (np.diff(found) > 2 * score_slack).any():
        return WRONG
    # For each image and class: boxes that were selected, suppressed, or missed.
    for batch, label in np.ndindex(*scores.shape[:2]):
        own = selected[(selected[:, :2] == (batch, label)).all(axis=1), 2]
        corners = find_corners(boxes[batch], attributes["box_encoding"])
        value = scores[batch, label]
        at_least, at_most = bound_overlaps(corners[own], corners, box_slack)
        apart = at_least[:, own][np.triu_indices(len(own), 1)] <= max_overlap
        suppressed = (at_most >= max_overlap) & (value[own][:, None] >= value - 2 * score_slack)
        is_full = len(own) >= most and (value <= value[own].min(initial=np.inf) + 2 * score_slack)
        missed = (value > min_score + score_slack) & ~suppressed.any(axis=0) & ~is_full
        missed[own] = False
        if not apart.all() or missed.any() or (value[own] < min_score - score_slack).any():
            return WRONG
        if len(own) > most:
            return WRONG
    return 0.0


def rois_error(inputs: Arrays, outputs: Arrays, attributes: Attributes, limit: float) -> float:
    """Compare picked boxes with the nearest ones, and the scores of these with the best."""
    boxes, scores = (inputs[index].astype(np.float64) for index in (0, 1))
    picked = outputs[0].astype(np.float64)[: len(scores)]
    distance = np.abs(picked[:, None] - boxes).max(axis=2)
    found, best = np.sort(scores[distance.argmin(axis=1)]), np.sort(scores)
    error_of_scores = relative_to(scores, found - best[len(best) - len(found) :])
    return max(relative_to(boxes, distance.min(axis=1)), error_of_scores)


def find_corners(boxes: FloatArray, encoding: str = "corner") -> FloatArray:
    """(n, 2, 2) lower and upper corners of boxes, given as two corners or a centre and a size."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if encoding == "center":
        first, second = first - second / 2, first + second / 2
    return np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)


def bound_overlaps(
    some: FloatArray, boxes: FloatArray, slack: float
) -> tuple[FloatArray, FloatArray]:
    """(n_some, n) bounds of intersection over union if coordinates err by up to ``slack``."""
    low = np.maximum(some[:, None, 0], boxes[None, :, 0])
    high = np.minimum(some[:, None, 1], boxes[None, :, 1])
    bounds = []
    for sign in (-1.0, 1.0):
        common = (high - low + 2 * sign * slack).clip(min=0.0).prod(axis=2)
        areas = [
            (one[:, 1] - one[:, 0] - 2 * sign * slack).clip(min=0.0).prod(axis=1)
            for one in (some, boxes)
        ]
        union = areas[0][:, None] + areas[1][None, :] - common
        bounds.append(np.where(union > 0.0, common / np.where(union > 0.0, union, 1.0), sign > 0))
    return bounds[0], bounds[1]


@dataclass(frozen=True)
class Rows:
    """Format of the rows of an operator that suppresses boxes: one row for each remaining box.

    Attributes:
        columns: Index of an output -> the names of its columns.
        counts: Index of the output that counts the rows of each image, if any.
        overlap: Attribute with the largest overlap of two boxes of a label; empty where overlaps
            lower scores instead.
        thresholds: Attributes with the lowest score.
        most: Attributes that limit the rows of an image, or of one of its labels.
    """

    columns: Mapping[int, Sequence[str]]
    counts: int = -1
    overlap: str = ""
    thresholds: Sequence[str] = ()
    most: Sequence[str] = ()

    def find_error(
        self, own: Arrays, outputs: Arrays, attributes: Attributes, limit: float
    ) -> float:
        """Return 0 if errors of scores and boxes of up to ``limit`` explain another set of rows.

        Rows match if labels are equal, and scores and boxes are within the limit. ``explain`` has
        to account for every row without a match, at most half of all. Rows of a label do not
        overlap by more than the threshold.
        """
        found, expected = self.read(outputs), self.read(own)
        slack = limit * np.abs(expected).max(axis=0, initial=0.0)
        slack[[IMAGE, LABEL]], slack[LEFT:] = 0.0, slack[LEFT:].max()
        near = np.ones((len(found), len(expected)), np.bool_)
        for column, allowed in enumerate(slack):
            near &= np.abs(found[:, None, column] - expected[:, column]) <= allowed
        for rows, others, has_near in (
            (found, expected, near.any(axis=1)),
            (expected, found, near.any(axis=0)),
        ):
            alone = rows[~has_near]
            few = len(alone) <= np.ceil((1.0 - MIN_SHARE) * len(rows))
            if not few or not self.explain(alone, others, attributes, limit, slack).all():
                return WRONG
        return WRONG if self.overlap and self.clash(found, attributes, slack) else 0.0

    def read(self, outputs: Arrays) -> FloatArray:
        """(n, 7) ``COLUMNS`` of the rows that are not padding."""
        table: dict[str, FloatArray] = {}
        for port, names in self.columns.items():
            if port in outputs:
                values = outputs[port].astype(np.float64).reshape(-1, len(names))
                table |= dict(zip(names, values.T, strict=True))
        zeros = np.zeros_like(next(iter(table.values())))
        rows = np.stack([table.get(name, zeros) for name in COLUMNS], axis=1)
        # The first image below 0 ends the rows; other free rows are -1, or all zero.
        used = np.logical_and.accumulate(rows[:, IMAGE] >= 0.0) & (rows[:, LABEL] >= 0.0)
        rows = rows[used & rows[:, SCORE:].any(axis=1)]
        counts = outputs.get(self.counts, np.zeros(0, np.int64))
        if counts.sum() == len(rows):
            rows[:, IMAGE] = np.repeat(np.arange(len(counts)), counts)
        return rows

    def explain(
        self,
        alone: FloatArray,
        others: FloatArray,
        attributes: Attributes,
        limit: float,
        slack: FloatArray,
    ) -> BoolArray:
        """(n_alone,) whether rounding explains that ``others`` lack a row.

        It does if the row scores as much as the threshold, no more than one that it overlaps, or no
        more than the last where the number of rows is at its limit.
        """
        score, slack_of_score = alone[:, SCORE], slack[SCORE]
        explained = np.zeros(len(alone), np.bool_)
        for name in self.thresholds:
            explained |= np.abs(score - attributes[name]) <= slack_of_score
        # An overlap below the limit changes a score by less than the limit.
        least = attributes[self.overlap] if self.overlap else limit
        corners = find_corners(others[:, LEFT:]), find_corners(alone[:, LEFT:])
        _, overlap = bound_overlaps(*corners, slack[LEFT:].max())
        image = others[:, None, IMAGE] == alone[:, IMAGE]
        label = image & (others[:, None, LABEL] == alone[:, LABEL])
        no_less = others[:, None, SCORE] >= score - 2 * slack_of_score
        explained |= (label & no_less & (overlap >= least)).any(axis=0)
        limits = [limit for name in self.most for limit in np.ravel(attributes[name]) if limit > 0]
        for rivals in (image, label):
            full = rivals.sum(axis=0) >= min(limits, default=np.inf)
            explained |= full & (no_less | ~rivals).all(axis=0)
        return explained

    def clash(self, rows: FloatArray, attributes: Attributes, slack: FloatArray) -> bool:
        """Return whether two rows of a label overlap by more than the threshold."""
        corners = find_corners(rows[:, LEFT:])
        overlap, _ = bound_overlaps(corners, corners, slack[LEFT:].max())
        same = (rows[:, None, : LABEL + 1] == rows[:, : LABEL + 1]).all(axis=2)
        return bool((np.triu(same, 1) & (overlap > attributes[self.overlap])).any())


def share_error(own: Arrays, outputs: Arrays, attributes: Attributes, limit: float) -> float:
    """Return 0 if enough elements equal the reference's, numbers within the limit.

    If all labels are equal, nothing was chosen differently: return the relative error of numbers.
    Of arrays of different sizes the common part is compared, from the start of each axis.
    """
    pairs = [(array, own[port]) for port, array in outputs.items() if port in own]
    labels = [pair for pair in pairs if pair[1].dtype.kind != "f"]
    if labels and all(np.array_equal(*pair) for pair in labels):
        return max(relative_error([array], [expected]) for array, expected in pairs)
    shares = [find_share(array, expected, limit) for array, expected in pairs]
    return 0.0 if min(shares, default=1.0) >= MIN_SHARE else WRONG


def find_share(array: Array, expected: Array, limit: float) -> float:
    """The share of equal elements; real numbers are equal within the limit."""
    slack = limit * np.abs(expected).max(initial=0.0) if expected.dtype.kind == "f" else 0.0
    common = tuple(map(slice, np.minimum(array.shape, expected.shape)))
    same = np.abs(array[common].astype(np.float64) - expected[common].astype(np.float64)) <= slack
    return float(same.sum() / max(array.size, expected.size, 1))


MULTICLASS = {0: ("label", "score", *BOX)}
SUPPRESSIONS = {
    "MulticlassNms": Rows(
        MULTICLASS, 2, "iou_threshold", ["score_threshold"], ["keep_top_k", "nms_top_k"]
    ),
    "MatrixNms": Rows(
        MULTICLASS, 2, "", ["score_threshold", "post_threshold"], ["keep_top_k", "nms_top_k"]
    ),
    "DetectionOutput": Rows(
        {0: ("image", "label", "score", *BOX)},
        overlap="nms_threshold",
        thresholds=["confidence_threshold"],
        most=["keep_top_k", "top_k"],
    ),
    "Proposal": Rows(
        {0: ("image", *BOX), 1: ("score",)}, overlap="nms_thresh", most=["post_nms_topn"]
    ),
    "GenerateProposals": Rows(
        {0: BOX, 1: ("score",)}, 2, overlap="nms_threshold", most=["post_nms_count"]
    ),
    "ExperimentalDetectronGenerateProposalsSingleImage": Rows(
        {0: BOX, 1: ("score",)}, overlap="nms_threshold", most=["post_nms_count"]
    ),
    "ExperimentalDetectronDetectionOutput": Rows(
        {0: BOX, 1: ("label",), 2: ("score",)},
        overlap="nms_threshold",
        thresholds=["score_threshold"],
        most=["max_detections_per_image", "post_nms_count"],
    ),
}
"""Type of an operator that returns boxes -> the format of its rows."""
LABELS = ("CTCGreedyDecoder", "CTCGreedyDecoderSeqLen", "Loop", "TensorIterator", "If")
"""Types that are compared by the share of equal elements."""
INSIDE = (*SUPPRESSIONS, *LABELS)
"""Types that choose inside; control flow does if its body does."""
ERRORS: Mapping[str, Error] = {
    "TopK": topk_error,
    "NonMaxSuppression": nms_error,
    "ExperimentalDetectronTopKROIs": rois_error,
    "Convert": convert_error,
    "Greater": comparison_error(np.greater),
    "GreaterEqual": comparison_error(np.greater_equal),
    "Less": comparison_error(np.less),
    "LessEqual": comparison_error(np.less_equal),
    "Equal": comparison_error(np.equal),
    "NotEqual": comparison_error(np.not_equal),
    **{kind: rows.find_error for kind, rows in SUPPRESSIONS.items()},
    **dict.fromkeys(LABELS, share_error),
}
"""Type of an operator -> its error."""
