"""Errors of choices: how far the values that were chosen are from those that should have been.

A device of lower precision may choose another one of two values that are nearly equal. That its
indices differ then is no error: the values at these indices, computed by the reference, decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import FloatArray

Array = NDArray[Any]
Arrays = Sequence[Array]
Outputs = Mapping[int, Array]
"""Index -> output, of those that are known."""
Attributes = Mapping[str, Any]
Error = Callable[[Arrays, Outputs, Attributes, float], float]
"""The relative error of an operator's outputs, by their index, on the reference's inputs and with
its attributes; 0 or ``WRONG`` where it is no number, given a limit of the error of values."""
WRONG = 1.0
"""The relative error of indices that no rounding explains."""


def topk_error(inputs: Arrays, outputs: Outputs, attributes: Attributes, limit: float) -> float:
    """Compare the values at chosen indices with the best, in their order if that is by value."""
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
    """The error of a comparison: how far two values are apart where its result is another."""

    def error(inputs: Arrays, outputs: Outputs, attributes: Attributes, limit: float) -> float:
        first, second = (array.astype(np.float64) for array in inputs)
        if outputs[0].shape != np.broadcast_shapes(first.shape, second.shape):
            return WRONG
        other = compare(first, second) != outputs[0].astype(np.bool_)
        return relative_to(np.append(first, second), np.where(other, first - second, 0.0))

    return error


def convert_error(inputs: Arrays, outputs: Outputs, attributes: Attributes, limit: float) -> float:
    """The distance of real numbers to the nearest that become these integers, or truth values."""
    values, whole = inputs[0].astype(np.float64), outputs[0].astype(np.float64)
    if values.shape != whole.shape:
        return WRONG
    if attributes["destination_type"] == "boolean":
        return relative_to(values, np.where(whole == 0.0, values, 0.0))
    # Conversion cuts the fraction off: -1.9 and 1.9 become -1 and 1, and all between them 0.
    low, high = whole - (whole <= 0.0), whole + (whole >= 0.0)
    return relative_to(values, np.maximum(low - values, values - high).clip(min=0.0))


def nms_error(inputs: Arrays, outputs: Outputs, attributes: Attributes, limit: float) -> float:
    """Return 0 if errors of boxes and scores of up to ``limit`` explain what was selected.

    Sound for greedy suppression: no two selected boxes of a class overlap by more than the
    threshold; each box that scores above its threshold is selected, or overlaps with a selected one
    that does not score less, or as many as are allowed score no less; all within the limit.
    """
    # Limits that are left out are 0, as in OpenVINO. Each selected box exists and is named once.
    boxes, scores = (array.astype(np.float64) for array in inputs[:2])
    limits = [float(array.max()) for array in inputs[2:5]]
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


def rois_error(inputs: Arrays, outputs: Outputs, attributes: Attributes, limit: float) -> float:
    """Compare picked boxes with the nearest of all, and the scores of these with the best."""
    boxes, scores = (array.astype(np.float64) for array in inputs)
    picked = outputs[0].astype(np.float64)[: len(scores)]
    apart = [np.abs(picked[:, None, side] - boxes[:, side]) for side in range(4)]
    distance = np.maximum.reduce(apart)
    found, best = np.sort(scores[distance.argmin(axis=1)]), np.sort(scores)
    error_of_scores = relative_to(scores, found - best[len(best) - len(found) :])
    return max(relative_to(boxes, distance.min(axis=1)), error_of_scores)


def find_corners(boxes: FloatArray, encoding: str) -> FloatArray:
    """(n, 2, 2) lower and upper corners of boxes, two opposite ones or a centre and a size."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if encoding == "center":
        first, second = first - second / 2, first + second / 2
    return np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)


def bound_overlaps(
    some: FloatArray, boxes: FloatArray, slack: float
) -> tuple[FloatArray, FloatArray]:
    """(n_some, n) bounds of overlaps if coordinates are off by up to ``slack``: intersections over
    unions.
    """
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


def relative_to(values: Array, difference: Array) -> float:
    """The largest difference relative to the largest value."""
    scale = np.abs(values).max(initial=0.0) or 1.0
    return float(np.abs(difference).max(initial=0.0) / scale)


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
}
"""By type of the operator."""
