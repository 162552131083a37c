# White-box tests of models
from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from numpy.typing import NDArray

from placement_gym.models import gpt, load_model

PROPERTIES = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
IDS = np.random.default_rng(0).integers(0, gpt.SMALL.vocabulary, (1, 12))


@pytest.fixture(scope="module")
def compiled() -> ov.CompiledModel:
    return ov.Core().compile_model(load_model("gpt"), "CPU", PROPERTIES)


Logits = NDArray[np.float32]


def answer(compiled: ov.CompiledModel, ids: NDArray[np.int64], *lengths: int) -> Logits:
    """Logits of all tokens, which are given in portions of these lengths."""
    request = compiled.create_infer_request()
    outputs, past = [], 0
    for new in lengths:
        inputs = {
            "input_ids": ids[:, past : past + new],
            "attention_mask": np.ones((1, past + new), np.int64),
            "position_ids": np.arange(past, past + new)[None],
        }
        outputs.append(request.infer(inputs)[0].copy())
        past += new
    return np.concatenate(outputs, axis=1)


def test_tokens_one_by_one_give_the_logits_of_all_at_once(compiled: ov.CompiledModel) -> None:
    by_steps = answer(compiled, IDS, 5, *[1] * 7)
    np.testing.assert_allclose(by_steps, answer(compiled, IDS, 12), atol=1e-4)


def test_a_token_is_attended_to_by_later_ones_alone(compiled: ov.CompiledModel) -> None:
    other = IDS.copy()
    other[0, 6] += 1
    moved = np.abs(answer(compiled, IDS, 12) - answer(compiled, other, 12)).max(axis=(0, 2))
    assert (moved[:6] < 1e-5).all()
    assert (moved[6:] > 1e-2).all()


def test_int8_is_the_type_of_all_matrices() -> None:
    matrices = [
        node
        for node in load_model("gpt-int8").get_ordered_ops()
        if node.get_type_name() == "Constant" and len(node.shape) == 2 and node.shape[1] > 1
    ]
    assert {node.get_element_type() for node in matrices} == {ov.Type.i8}


def test_int4_is_for_dense_layers_and_int8_for_tables() -> None:
    stored = {
        node.get_friendly_name().split("/")[0]: str(node.get_element_type())
        for node in load_model("gpt-int4").get_ordered_ops()
        if node.get_friendly_name().endswith("/compressed")
    }
    assert stored.pop("embeddings") == "<Type: 'int8_t'>"
    assert set(stored.values()) == {"<Type: 'int4_t'>"}
    assert len(stored) == 4


@pytest.mark.slow
def test_number_is_that_of_layers_of_gpt_2() -> None:
    model = load_model("gpt-2")
    assert len(model.get_variables()) == 4
    assert model.output().get_partial_shape()[2].get_length() == 50257


@pytest.mark.parametrize(("name", "close"), [("gpt-int8", 0.3), ("gpt-int4", 1.5)])
def test_rounded_weights_give_about_the_same_logits(
    name: str, close: float, compiled: ov.CompiledModel
) -> None:
    rounded = ov.Core().compile_model(load_model(name), "CPU", PROPERTIES)
    difference = answer(rounded, IDS, 12) - answer(compiled, IDS, 12)
    assert 0.0 < np.abs(difference).max() < close
