# White-box tests of models
from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from graphs import problem_on
from numpy.typing import NDArray
from onnx_files import Writer
from openvino import opset13 as ops

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.graph import OpGraph, extract
from placement_gym.hardware import PRESETS
from placement_gym.models import load_model, match_built_in, prepare
from placement_gym.models.built_in import build
from placement_gym.problem.costs import analytic

MODELS = ("tiny", "resnet", "inception", "bert-8", "mobilenet-50", "vit-1")
PUBLISHED = {"mobilenet": (0.6, 3.5), "vit-12": (35.0, 86.6)}
"""Operations in 10^9 and weights in 10^6."""
Built = Callable[[str], ov.Model]


def names(model: ov.Model) -> list[str]:
    return [node.get_friendly_name() for node in model.get_ordered_ops()]


def constants(model: ov.Model) -> dict[str, NDArray[np.generic]]:
    nodes = [node for node in model.get_ordered_ops() if node.get_type_name() == "Constant"]
    return {node.get_friendly_name(): node.data for node in nodes}


def two_relus(name: str, shape: list[int]) -> ov.Model:
    """Two operators that carry the same friendly name."""
    x = ops.parameter(shape, np.float32, name="x")
    inner = ops.relu(x)
    outer = ops.relu(inner)
    inner.set_friendly_name(name)
    outer.set_friendly_name(name)
    return ov.Model([ops.result(outer)], [x], "two relus")


def stateful() -> ov.Model:
    x = ops.parameter([1, 4], np.float32, name="x")
    state = ops.read_value(ops.constant(np.zeros((1, 4), np.float32)), "state", np.float32, [1, 4])
    total = ops.add(x, state)
    return ov.Model([ops.result(total)], [ops.assign(total, "state")], [x], "stateful")


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "tolerance"),
    [
        ("resnet-fp16", 396, 411, 0.0),
        ("resnet", 288, 303, 0.0),
        ("inception-fp16", 728, 764, 0.02),
        pytest.param("bert-fp16", 1009, 1071, 0.10, marks=pytest.mark.slow),
    ],
)
def test_raw_graph_is_as_large_as_the_published_one(
    graph_of: Callable[[str, str], OpGraph], name: str, nodes: int, edges: int, tolerance: float
) -> None:
    raw = graph_of(name, "raw")
    assert len(raw) == pytest.approx(nodes, rel=tolerance)
    assert raw.n_edges == pytest.approx(edges, rel=tolerance)


def test_tiny_has_about_a_dozen_operators(graph_of: Callable[[str, str], OpGraph]) -> None:
    assert 10 <= len(graph_of("tiny", "folded")) <= 14


@pytest.mark.parametrize("name", ["tiny", "resnet", "vit-1"])
def test_weights_are_equal_between_builds(built: Built, name: str) -> None:
    again = constants(prepare(build(match_built_in(name))))
    first = constants(built(name))
    assert list(again) == list(first)
    assert all(np.array_equal(first[key], again[key]) for key in first)


def test_compressed_weights_are_the_rounded_ones(built: Built) -> None:
    full = [data for data in constants(built("tiny")).values() if data.dtype == np.float32]
    half = [data for data in constants(built("tiny-fp16")).values() if data.dtype == np.float16]
    assert len(full) == len(half) > 0
    for exact, rounded in zip(full, half, strict=True):
        np.testing.assert_array_equal(exact.astype(np.float16), rounded)


@pytest.mark.parametrize("name", ["tiny", "resnet", "inception"])
def test_every_bias_is_positive_and_so_survives_compilation(built: Built, name: str) -> None:
    biases = [
        port.get_source_output().get_node().data
        for node in built(name).get_ordered_ops()
        if node.get_type_name() == "Add"
        for port in node.inputs()
        if port.get_source_output().get_node().get_type_name() == "Constant"
    ]
    assert biases
    assert all(np.abs(bias).min() > 0 for bias in biases)


@pytest.mark.parametrize("name", MODELS)
def test_output_is_finite_and_depends_on_the_input(built: Built, name: str) -> None:
    compiled = ov.Core().compile_model(built(name), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    answers = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        inputs = {
            port.any_name: rng.integers(0, 2, port.shape)
            if port.element_type == ov.Type.i64
            else rng.random(port.shape, dtype=np.float32)
            for port in compiled.inputs
        }
        if "attention_mask" in inputs:
            inputs["attention_mask"][:] = 1
        answers.append(compiled(inputs)[0])
    assert np.isfinite(answers).all()
    assert not np.allclose(answers[0], answers[1], rtol=1e-3, atol=0.0)


def test_resnet_classifies_one_image(built: Built) -> None:
    assert list(built("resnet").input().shape) == [1, 3, 224, 224]
    assert list(built("resnet").output().shape) == [1, 1000]


@pytest.mark.parametrize(
    ("name", "tokens"), [("bert-8", 8), pytest.param("bert", 128, marks=pytest.mark.slow)]
)
def test_bert_reads_as_many_tokens_as_its_name_says(built: Built, name: str, tokens: int) -> None:
    assert {tuple(port.shape) for port in built(name).inputs} == {(1, tokens)}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bert-0", "1 to 512"),
        ("bert-513", "1 to 512"),
        ("gpt-0", "1 to 96 layers"),
        ("mobilenet-10", "35 to 400 percent"),
        ("vit-0", "1 to 48 layers"),
        ("resnet-50", "takes no number, only bert, .* as in 'bert-8'"),
        ("resnet-int8", "only cnn-int8, gpt-int8"),
    ],
)
def test_what_a_model_does_not_have_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_model(name)


def test_the_number_in_a_name_sets_the_size() -> None:
    counts = [len(extract(load_model(name), "folded")) for name in ("vit-1", "vit-2")]
    assert counts[0] < counts[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_work_and_weights_are_the_published_ones(name: str) -> None:
    graph = extract(load_model(name), "folded")
    operations, weights = PUBLISHED[name]
    assert graph.flops.sum() / 1e9 == pytest.approx(operations, rel=0.1)
    assert graph.weight_bytes.sum() / 4e6 == pytest.approx(weights, rel=0.05)


@pytest.mark.parametrize("name", ["nosuchmodel", "resnet-fp17", "nowhere/model.xml"])
def test_unknown_name_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"tiny.*resnet.*inception.*bert") as error:
        load_model(name)
    assert name in str(error.value)


def test_dynamic_model_loads_once_it_is_reshaped() -> None:
    model = two_relus("relu", [-1, 4])
    model.reshape({"x": [2, 4]})
    assert list(load_model(model).output().shape) == [2, 4]


@pytest.mark.parametrize("kind", [str, Path])
def test_ir_file_loads_as_the_graph_that_was_saved(
    tmp_path: Path, built: Built, kind: Callable[[Path], str | Path]
) -> None:
    ov.save_model(built("tiny"), tmp_path / "saved.xml", compress_to_fp16=False)
    loaded = load_model(kind(tmp_path / "saved.xml"))
    assert extract(loaded).fingerprint() == extract(built("tiny")).fingerprint()


def test_onnx_file_loads(tmp_path: Path) -> None:
    out = Writer()
    out.constant("w", np.arange(6, dtype=np.float32).reshape(3, 2))
    out.add("Relu", [out.add("MatMul", ["x", "w"], "product")], "y")
    graph = extract(load_model(out.save(tmp_path / "mlp.onnx", {"x": [1, 3]}, {"y": [1, 2]})))
    assert graph.types == ("MatMul", "Relu")


def test_duplicate_friendly_names_become_unique() -> None:
    taken = two_relus("twin", [1, 4])
    taken.get_results()[0].set_friendly_name("twin_2")
    for model in (load_model(two_relus("twin", [1, 4])), load_model(stateful()), prepare(taken)):
        loaded = names(model)
        assert len(loaded) == len(set(loaded)) >= 4


def test_loading_a_model_in_memory_leaves_it_as_it_was() -> None:
    model = two_relus("twin", [1, 4])
    before = names(model)
    loaded = load_model(model)
    loaded.get_ordered_ops()[0].get_rt_info()["affinity"] = "CPU"
    assert names(model) == before
    assert not any("affinity" in node.get_rt_info() for node in model.get_ordered_ops())


@pytest.mark.parametrize("granularity", ["op", "colocated"])
def test_tiny_has_one_optimum_and_it_uses_both_devices(
    graph_of: Callable[[str, str], OpGraph], granularity: str
) -> None:
    problem = problem_on(graph_of("tiny", "folded"), PRESETS["cpu+dgpu"], granularity)
    backend = SimulatedBackend(problem, analytic(problem.units.graph, problem.devices))
    scores = {
        bits: backend.evaluate_ignoring_limits(np.array(bits)).latency_ms
        for bits in product(range(2), repeat=problem.n_units)
    }
    optimum, runner_up = sorted(scores, key=scores.__getitem__)[:2]
    assert set(optimum) == {0, 1}
    assert scores[runner_up] > scores[optimum] * (1 + 1e-4)
