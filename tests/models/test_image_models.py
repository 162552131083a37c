"""The built-in models beside those of HSDAG: sizes, outputs and names."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest

from placement_gym.graph.extract import extract
from placement_gym.models import load

SMALL = ("mobilenet-50", "vit-1")
PUBLISHED = {"mobilenet": (0.6, 3.5), "vit-12": (35.0, 86.6)}
"""Operations in 10^9 and weights in 10^6."""


def answer(model: ov.Model) -> np.ndarray:
    """The first output for drawn inputs."""
    rng = np.random.default_rng(0)
    inputs = [
        rng.integers(0, 200, list(one.shape))
        if one.element_type == ov.Type.i64
        else rng.random(list(one.shape), dtype=np.float32)
        for one in model.inputs
    ]
    properties = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    first: np.ndarray = ov.Core().compile_model(model, "CPU", properties)(inputs)[0]
    return first


@pytest.mark.parametrize("name", SMALL)
def test_weights_are_seeded_and_outputs_depend_on_inputs(name: str) -> None:
    first, again = load(name), load(name)
    weights = [
        [node.data for node in model.get_ordered_ops() if node.get_type_name() == "Constant"]
        for model in (first, again)
    ]
    assert all(np.array_equal(a, b) for a, b in zip(*weights, strict=True))
    found = answer(first)
    assert np.isfinite(found).all()
    assert found.std() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_work_and_weights_are_the_published_ones(name: str) -> None:
    graph = extract(load(name), "folded")
    operations, weights = PUBLISHED[name]
    assert graph.flops.sum() / 1e9 == pytest.approx(operations, rel=0.1)
    assert graph.weight_bytes.sum() / 4e6 == pytest.approx(weights, rel=0.05)


def test_the_number_in_a_name_sets_the_size() -> None:
    counts = [len(extract(load(name), "folded")) for name in ("vit-1", "vit-2")]
    assert counts[0] < counts[1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mobilenet-10", "35 to 400 percent"),
        ("vit-0", "1 to 48 layers"),
        ("resnet-50", "takes no number"),
    ],
)
def test_a_size_out_of_range_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(name)
