# White-box tests of workloads
"""Requests of models with state: lengths that are not those of tokens, own inputs, equal steps."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import openvino as ov
import pytest
from foreign_models import make_decoder
from stateful_models import (
    WIDTH,
    WINDOW,
    WORDS,
    make_cross_attention,
    make_state_space,
    make_voice_detector,
)
from testbed import build_here

from placement_gym.base import UserError
from placement_gym.models import ModelSpec, load_model
from placement_gym.problem import Placement
from placement_gym.workloads import Conversation, draw, make_request
from placement_gym.workloads.with_state import EqualSteps

ENCODER = "encoder_hidden_states"


def shapes_of(request: Any, model: ov.Model) -> list[list[tuple[int, ...]]]:
    """(n_inferences, n_inputs) the shapes of a request's inputs."""
    return [[tuple(x.shape) for x in step] for step in draw(request, model)]


@pytest.mark.parametrize("name", [ENCODER, "audio_features"])
def test_the_length_of_an_encoder_is_asked_for(name: str) -> None:
    model = load_model(make_cross_attention(encoder=name))
    remedy = re.escape(f'--shape "{name}[1,1500,{WIDTH}]"')
    with pytest.raises(UserError, match=rf"is not that of the tokens: .*{remedy}.*--inputs"):
        make_request(model)


@pytest.mark.parametrize("mask", [False, True])
def test_own_inputs_say_how_long_an_encoder_is(mask: bool) -> None:
    model = load_model(make_cross_attention(mask=mask))
    given: dict[str, Any] = {ENCODER: np.ones((1, 30, WIDTH))}
    if mask:
        given["encoder_attention_mask"] = np.ones((1, 30), int)
    request = make_request(model, "chat-4-2", given)
    assert request.data_shapes[ENCODER] == (1, 30, WIDTH)
    fixed = [(1, 30, WIDTH), *([(1, 30)] if mask else [])]
    assert shapes_of(request, model) == [[(1, n), *fixed] for n in (4, 1, 1)]
    assert all((step[1] == 1).all() for step in draw(request, model))


def test_lengths_of_every_sample_have_to_fit_each_other() -> None:
    model = load_model(make_cross_attention(mask=True))
    samples = [
        {ENCODER: np.ones((1, 30, WIDTH)), "encoder_attention_mask": np.ones((1, length), int)}
        for length in (30, 20)
    ]
    with pytest.raises(UserError, match=r"'encoder_attention_mask': \(1, 20\)"):
        make_request(model, "chat-4-2", samples)


def test_a_bound_length_of_an_encoder_is_its_length() -> None:
    model = load_model(make_cross_attention(), shapes={ENCODER: [1, 30, WIDTH]})
    request = make_request(model, "chat-4-2")
    assert shapes_of(request, model)[1] == [(1, 1), (1, 30, WIDTH)]
    first, second = (step[1] for step in draw(request, model)[:2])
    assert np.asarray(first).shape == np.asarray(second).shape


@pytest.mark.parametrize("tokens", ["inputs_embeds", "embedded"])
def test_embeddings_of_tokens_are_the_decoders(tokens: str) -> None:
    model = load_model(make_cross_attention(tokens), shapes={ENCODER: [1, 30, WIDTH]})
    request = make_request(model, "chat-4-2")
    assert shapes_of(request, model)[0] == [(1, 4, WIDTH), (1, 30, WIDTH)]


def test_a_placement_of_before_counts_as_it_did() -> None:
    """Version 0.3 gave encoders the length of the step."""
    model = load_model(make_cross_attention())
    placement = Placement("m", "0", "folded", (), {}, {}, scenario="chat-4-2")
    request = make_request(model, "chat-4-2", placement.spec.inputs)
    assert shapes_of(request, model)[0] == [(1, 4), (1, 4, WIDTH)]


def test_steps_take_their_part_of_own_tokens() -> None:
    model = load_model(make_decoder())
    ids = np.arange(6).reshape(1, 6)
    request = make_request(model, "chat-4-2", {"input_ids": ids})
    index = [port.get_any_name() for port in model.inputs].index("input_ids")
    found = [np.asarray(step[index]).tolist() for step in draw(request, model)]
    assert found == [[[0, 1, 2, 3]], [[4]], [[5]]]
    with pytest.raises(
        UserError, match="'input_ids' has 6 tokens, and scenario 'chat-4-3' takes 7"
    ):
        make_request(model, "chat-4-3", {"input_ids": ids})


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("prompt", [3, 6])
def test_a_state_space_decodes_as_if_all_were_its_prompt(prompt: int, is_own: bool) -> None:
    model = load_model(make_state_space())
    own: dict[str, Any] = {"input_ids": np.arange(9).reshape(1, 9)}
    if is_own:
        own |= {"attention_mask": np.ones((1, 9), int), "cache_position": np.arange(9)}
    request = make_request(model, f"chat-{prompt}-2", own)
    token = [(1, 1), (1, 1), (1,), (1,)]
    assert shapes_of(request, model) == [[(1, prompt), (1, prompt), (WINDOW,), (1,)], token, token]
    sizes = [list(shaped.nodes["logits"].shape) for shaped in request.list_shapes(model)]
    assert sizes == [[1, count, WORDS] for count in (prompt, 1, 1)]
    decoder = ov.compile_model(model, "CPU").create_infer_request()

    def last_logits(scenario: str) -> Any:
        steps = draw(make_request(model, scenario, own), model)
        decoder.reset_state()
        return [np.array(decoder.infer(step)[0])[0, -1] for step in steps]

    found = last_logits(f"chat-{prompt}-2")
    for answered, logits in enumerate(found):
        expected = last_logits(f"chat-{prompt + answered}-1")[0]
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_own_positions_number_all_places_of_a_state() -> None:
    model = load_model(make_state_space())
    with pytest.raises(UserError, match=r"'cache_position' has 2 tokens, .* takes 4"):
        make_request(model, "chat-1-1", {"cache_position": np.arange(2)})


def test_generated_tokens_are_any_of_the_vocabulary() -> None:
    model = load_model("gpt")
    prompt, _ = draw(Conversation(40, 1), model)
    assert prompt[0].max() > 100
    other = draw(Conversation(40, 1), model, 1)[0]
    assert prompt[0].tolist() != other[0].tolist()


def test_state_without_tokens_is_a_request_of_equal_steps() -> None:
    model = load_model(make_voice_detector(), shapes={"audio": [1, 512]})
    request = make_request(model)
    assert isinstance(request, EqualSteps)
    assert request.keywords() == {"scenario": "steps-16"}
    assert shapes_of(request, model) == [[(1, 512)]] * 16
    assert make_request(model, "steps-3").list_shapes(model)[1][0] == 2.0
    with pytest.raises(UserError, match="reads no tokens, so its scenario is a number of equal"):
        make_request(model, "talk")
    assert isinstance(make_request(model, "chat-4-2"), Conversation)  # as version 0.3 had it


def test_the_length_of_a_part_of_a_signal_is_asked_for() -> None:
    model = load_model(make_voice_detector())
    with pytest.raises(UserError, match=re.escape('--shape "audio[1,1500]"')):
        make_request(model)
    assert make_request(model, None, {"audio": np.ones((1, 640))}).data_shapes == {
        "audio": (1, 640)
    }


def test_decoders_still_have_a_prompt_and_tokens() -> None:
    for model in (load_model("gpt"), load_model(make_decoder())):
        assert isinstance(make_request(model), Conversation)


def test_equal_steps_are_measured_without_a_prompt(tmp_path: Any) -> None:
    file = tmp_path / "detector.xml"
    ov.save_model(make_voice_detector(), file)
    spec = ModelSpec(file, "op", shapes={"audio": [1, 512]}, scenario="steps-3")
    backend = build_here(spec)
    split = (np.arange(backend.problem.n_units) % 2).astype(np.int64)
    measured = backend.evaluate(split)
    assert not measured.error
    assert measured.parts_ms.keys() == {"step_ms"}
