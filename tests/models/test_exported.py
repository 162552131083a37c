"""Models as the usual tools export them, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from foreign_models import ones_of, save_residual_onnx
from numpy.typing import NDArray
from onnx_files import Writer
from openvino import opset13 as ops
from testbed import build_here, worker_of

from placement_gym.backends.measured import MeasuredBackend, relative_error
from placement_gym.graph import extract
from placement_gym.models import ModelSpec, UnsupportedModelError, load_model

TINY = {"num_hidden_layers": 2, "vocab_size": 128, "num_attention_heads": 4}


def save_dynamic_onnx(path: Path) -> Path:
    """Write a network whose batch and length are names, as exporters with dynamic axes do."""
    out, shape = Writer(), ["batch", "length", 8]
    out.constant("weight", np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32))
    out.add("MatMul", ["x", "weight"], "product")
    out.add("Softmax", ["product"], "weights")
    out.add("Mul", ["weights", "product"], "out")
    return out.save(path, {"x": shape}, {"out": shape})


def test_dynamic_axes_are_bound_by_their_input(tmp_path: Path) -> None:
    file = save_dynamic_onnx(tmp_path / "dynamic.onnx")
    with pytest.raises(UnsupportedModelError, match=r'--shape "x\[1,1,8\]"'):
        load_model(file)
    assert load_model(file, shapes={"x": [2, 5, 8]}).output().shape == [2, 5, 8]


def test_nodes_have_the_same_names_whenever_a_file_is_read(tmp_path: Path) -> None:
    file = save_residual_onnx(tmp_path / "residual.onnx")
    first, second = extract(load_model(file), "raw"), extract(load_model(file), "raw")
    assert first.names == second.names


def test_nodes_that_binding_adds_have_the_same_names_each_time(tmp_path: Path) -> None:
    x = ops.parameter([-1, 4, 4], np.float32, name="x")
    x.output(0).get_tensor().set_names({"x"})
    part = ops.strided_slice(x, [0, 0, 0], [0, 1, 4], [1, 1, 1], [1, 0, 0], [1, 0, 0])
    model = ov.Model([ops.result(ops.squeeze(part, ops.constant([1])))], [x], "sliced")
    file = tmp_path / "sliced.xml"
    ov.save_model(model, file, compress_to_fp16=False)
    first, second = (extract(load_model(file, shapes={"x": [2, 4, 4]}), "raw") for _ in range(2))
    assert first.names == second.names
    assert any("/added" in name for name in first.names)


def check_split(model: Any, parts: int, **kwargs: Any) -> MeasuredBackend:
    """Compile a model in parts on two devices in turn, and compare its outputs."""
    backend = build_here(ModelSpec(model, "op", **kwargs))
    n = backend.problem.n_units
    worker = worker_of(backend)
    split = worker.compile(np.arange(n) * parts // n % 2)
    assert split.compilation.n_submodels > 1
    outputs: Sequence[NDArray[Any]] = split.inferences.outputs()
    assert relative_error(outputs, worker.reference.inferences.outputs()) < 1e-5
    backend.close()
    return backend


def sized(argument: str, sizes: dict[str, list[int]]) -> dict[str, Any]:
    """Arguments that bind a model to sizes, or give inputs of these."""
    return {argument: sizes if argument == "shapes" else ones_of(sizes)}


BOUND_OR_DYNAMIC = pytest.mark.parametrize("argument", ["shapes", "inputs"])


@pytest.mark.slow
@BOUND_OR_DYNAMIC
def test_file_with_dynamic_axes_runs_split(argument: str, tmp_path: Path) -> None:
    file = save_dynamic_onnx(tmp_path / "dynamic.onnx")
    check_split(file, 2, **sized(argument, {"x": [2, 5, 8]}))


@pytest.mark.slow
@BOUND_OR_DYNAMIC
def test_module_of_torch_runs_split(argument: str) -> None:
    import torch

    torch.manual_seed(0)
    parts = (
        torch.nn.Linear(16, 32),
        torch.nn.GELU(),
        torch.nn.Linear(32, 16),
        torch.nn.Softmax(-1),
    )
    module = torch.nn.Sequential(*parts, torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
    converted = ov.convert_model(module.eval(), example_input=torch.rand(1, 6, 16))
    name = converted.inputs[0].get_any_name()
    check_split(converted, 3, **sized(argument, {name: [1, 6, 16]}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "head", "options"),
    [
        ("GPT2Config", "GPT2LMHeadModel",
         {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 128}),
        ("LlamaConfig", "LlamaForCausalLM",
         {**TINY, "hidden_size": 32, "intermediate_size": 64, "num_key_value_heads": 2}),
    ],
)  # fmt: skip
def test_language_model_of_transformers_decodes_split(
    config: str, head: str, options: dict[str, Any], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    exporter = pytest.importorskip("optimum.exporters.openvino", reason="needs optimum-intel")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = getattr(transformers, head)(getattr(transformers, config)(**options))
    model.save_pretrained(tmp_path / "torch")
    exporter.main_export(tmp_path / "torch", tmp_path, task="text-generation-with-past")
    backend = check_split(tmp_path / "openvino_model.xml", 3, scenario="chat-6-4")
    states = backend.problem.units.graph.states
    assert len(states) == 4
    assert len({backend.problem.units.of_operator[state[0]] for state in states}) == 2


@pytest.mark.slow
@BOUND_OR_DYNAMIC
def test_encoder_of_transformers_runs_split(argument: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    exporter = pytest.importorskip("optimum.exporters.openvino", reason="needs optimum-intel")
    config = transformers.BertConfig(**TINY, hidden_size=32, intermediate_size=64)
    transformers.BertModel(config).save_pretrained(tmp_path / "torch")
    exporter.main_export(tmp_path / "torch", tmp_path, task="feature-extraction")
    names = ("input_ids", "attention_mask", "token_type_ids")
    sizes = {name: [1, 8] for name in names}
    check_split(tmp_path / "openvino_model.xml", 3, **sized(argument, sizes))
