# White-box tests of models
"""Several models are one: prefixed names, rates, and the models back again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from foreign_models import make_encoder
from oracle import count_stages

from placement_gym.base import UserError
from placement_gym.graph import extract, pipeline_stages
from placement_gym.models import Member, ModelSpec, joining, list_members, load_model, split_union
from placement_gym.workloads import sample_inputs


def names_of(ports: list[ov.Output]) -> list[str]:
    return [port.get_any_name() for port in ports]


def test_nodes_inputs_and_outputs_are_prefixed() -> None:
    union = load_model(["tiny", "tiny"])
    assert names_of(union.inputs) == ["tiny/image", "tiny_2/image"]
    assert names_of(union.outputs) == ["tiny/probabilities", "tiny_2/probabilities"]
    prefixes = {node.get_friendly_name().split("/")[0] for node in union.get_ops()}
    assert prefixes == {"tiny", "tiny_2"}


def test_a_union_computes_what_its_models_do() -> None:
    union, (image, *_) = load_model(["tiny", "tiny"]), sample_inputs(load_model("tiny"))
    both = ov.Core().compile_model(union, "CPU")([image, image])
    alone = ov.Core().compile_model(load_model("tiny"), "CPU")([image])[0]
    for found in both.values():
        np.testing.assert_allclose(found, alone, rtol=1e-4)


def test_rates_and_names_outlive_a_file(tmp_path: Path) -> None:
    ov.save_model(load_model(["tiny:3", "cnn"]), tmp_path / "both.xml", compress_to_fp16=False)
    read = load_model(tmp_path / "both.xml")
    assert list_members(read) == (Member("tiny", 3), Member("cnn", 1))
    assert extract(read).models == (Member("tiny", 3), Member("cnn", 1))


def test_the_models_of_a_union_are_as_they_were() -> None:
    union = load_model(["gpt", "gpt-int8"])
    states = {variable.info.variable_id for variable in union.get_variables()}
    for name, part in split_union(union).items():
        assert extract(part).fingerprint() == extract(load_model(name)).fingerprint()
        assert names_of(part.inputs) == names_of(load_model(name).inputs)
    assert {variable.info.variable_id for variable in union.get_variables()} == states
    assert len(states) == 16


def test_built_in_models_are_a_union_by_one_name() -> None:
    union = load_model("tiny+cnn:2")
    assert union.get_friendly_name() == "tiny+cnn:2"
    assert extract(union).fingerprint() == extract(load_model(["tiny", "cnn:2"])).fingerprint()
    assert extract(union).fingerprint() != extract(load_model("tiny+cnn")).fingerprint()


def test_shapes_name_the_model_of_an_input() -> None:
    union = load_model([make_encoder(), "tiny"], shapes={"encoder/input_ids": [1, 8]})
    assert list(union.inputs[0].shape) == [1, 8]
    with pytest.raises(UserError, match=r"'tony'.*did you mean 'tiny'"):
        load_model([make_encoder(), "tiny"], shapes={"tony/image": [1, 3, 64, 64]})


def test_a_model_called_mask_does_not_make_masks_of_its_inputs() -> None:
    model = load_model("tiny")
    model.set_friendly_name("mask")
    image, _ = sample_inputs(load_model([model, "tiny"]))
    assert np.ptp(np.asarray(image)) > 0.5


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ([], "list of models is empty"),
        (["tiny:0", "cnn"], "'tiny:0': a rate is a whole number from 1 to 999"),
        (["tiny:1.5", "cnn"], "'tiny:1.5': a rate is"),
        (["tiny", "cnn:"], "'cnn:': a rate is"),
        (["tiny:2"], "relative to other models"),
        (["tiny", "gpt"], r"\['gpt'\] have state.*\['tiny'\] do not"),
        (["tiny", "synthetic-layered-1000"], "graph without a model"),
        (["tiny", "tany"], "no model 'tany'; did you mean 'tiny'"),
    ],
)
def test_wrong_lists_are_refused(models: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        ModelSpec(models).load()  # type: ignore[arg-type]


def test_a_union_joins_no_others() -> None:
    with pytest.raises(UserError, match="is already a union"):
        load_model([load_model(["tiny", "tiny"]), "cnn"])


def test_a_list_of_one_is_that_model() -> None:
    assert ModelSpec(["tiny"]) == ModelSpec("tiny")


def test_a_spec_of_several_reaches_another_process(tmp_path: Path) -> None:
    ov.save_model(load_model("tiny"), tmp_path / "a.xml")
    file = tmp_path / "a.xml"
    with ModelSpec(["cnn:2", file]).as_file() as values:
        assert values["model"] == ["cnn:2", str(file.resolve())]
    with ModelSpec([load_model("tiny"), "cnn:2"]).as_file() as values:
        assert list_members(load_model(values["model"])) == (Member("tiny"), Member("cnn", 2))


def stages_of(models: Any, assign: Any) -> tuple[Any, Any]:
    graph = extract(load_model(models))
    devices = np.array([assign(name) for name in graph.names], dtype=np.int64)
    return graph, devices


def test_no_stage_holds_parts_of_two_models() -> None:
    graph, devices = stages_of(["tiny", "cnn"], lambda name: 0)
    stages = pipeline_stages(graph, devices)
    assert len(set(zip(stages.tolist(), graph.model_of.tolist(), strict=True))) == 2
    assert stages.max() == 1


def test_a_model_cut_back_and_forth_does_not_cut_another() -> None:
    """tiny goes from device 0 to 1 and back, cnn stays whole on each of the two."""

    def assign(name: str) -> int:
        model, _, node = name.partition("/")
        return 1 if model == "tiny" and node.startswith(("left", "right")) else 0

    graph, devices = stages_of(["tiny", "cnn:3"], assign)
    stages = pipeline_stages(graph, devices)
    assert len(set(stages[graph.model_of == 1].tolist())) == 1
    assert len(set(stages[graph.model_of == 0].tolist())) == 3
    assert count_stages(graph, devices, 2).tolist() == [2 + 3, 1]


def test_built_in_models_of_a_union_hold_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "MAX_BUILT_GIB", 1e-3)
    with pytest.raises(UserError, match=r"'tiny_2' is one too many: .* 0.001 GiB of weights"):
        load_model("tiny+tiny+tiny")
    load_model([load_model("tiny"), load_model("tiny")])  # what is made already may have any size
