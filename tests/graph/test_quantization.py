from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops
from quantized import CHANNELS, write_onnx
from testbed import known_model, outputs

from placement_gym.backends.measured import HeteroPartition, compile_partition, relative_error
from placement_gym.graph import OpGraph, extract, is_quantized, without_integer_kernels
from placement_gym.hardware import PRESETS, TESTBED
from placement_gym.models import load_model
from placement_gym.problem.costs import analytic
from placement_gym.workloads import sample_inputs


@pytest.fixture(scope="module")
def cnn() -> OpGraph:
    return extract(known_model("cnn-int8"))


@pytest.fixture(scope="module")
def from_onnx(tmp_path_factory: pytest.TempPathFactory) -> ov.Model:
    file = tmp_path_factory.mktemp("onnx") / "quantized.onnx"
    write_onnx(file)
    return load_model(file)


def convert(value: np.ndarray[Any, Any]) -> ov.Model:
    x = ops.parameter([4], np.float32, name="x")
    weight = ops.convert(ops.constant(value), "f32")
    return load_model(ov.Model([ops.result(ops.multiply(x, weight))], [x], "converted"))


def integer_kernels(compiled: ov.CompiledModel, model: ov.Model) -> int:
    """Convolutions that are computed in eight bits."""
    request = compiled.create_infer_request()
    request.infer(dict(enumerate(sample_inputs(model))))
    ran = [one.exec_type for one in request.profiling_info if one.node_type == "Convolution"]
    return sum("I8" in kernel for kernel in ran)


def compile_in_f32(model: ov.Model) -> ov.CompiledModel:
    config = {"INFERENCE_PRECISION_HINT": "f32", "PERF_COUNT": True}
    return ov.Core().compile_model(model, "CPU", config)


def edges(graph: OpGraph) -> set[tuple[str, str]]:
    return {(graph.names[a], graph.names[b]) for a, b in graph.edge_index.T.tolist()}


def test_rounding_is_placed_with_the_operators_that_read_it(cnn: OpGraph) -> None:
    assert "FakeQuantize" not in cnn.types
    listed = [name for names in cnn.members for name in names]
    raw = extract(known_model("cnn-int8"), "raw")
    assert sorted(listed) == sorted(raw.names)


def test_all_operators_that_read_rounding_read_what_it_rounds(cnn: OpGraph) -> None:
    shared = "stage0/block0/relu2"
    readers = {target for source, target in edges(cnn) if source == shared}
    assert readers == {"stage0/block1/conv1/conv", "stage0/block1/sum"}


def rounded() -> tuple[ov.Node, ov.Node]:
    """An input and its rounding to 256 levels between 0 and 1."""
    x = ops.parameter([1, 8], np.float32, name="x")
    ends = [ops.constant(np.float32(end)) for end in (0.0, 1.0)]
    return x, ops.fake_quantize(x, *ends, *ends, 256)


def test_rounded_input_goes_to_all_readers_of_the_rounding() -> None:
    x, levels = rounded()
    left, right = ops.exp(levels), ops.sqrt(levels)
    graph = extract(load_model(ov.Model([ops.result(left), ops.result(right)], [x], "two")))
    assert [len(readers) for readers in graph.inputs] == [2]


def test_onnx_chain_of_rounding_is_placed_as_a_whole(from_onnx: ov.Model) -> None:
    graph = extract(from_onnx)
    assert sorted(set(graph.types)) == ["Add", "Convolution", "ReduceMean", "Relu"]
    owner = {name: i for i, names in enumerate(graph.members) for name in names}
    product = graph.types[owner["relu0/dequantize"]], owner["relu0/dequantize"]
    assert product == ("Convolution", owner["relu0/quantize"])


def test_arithmetic_behind_rounding_stays_an_operator() -> None:
    x, levels = rounded()
    scaled = ops.multiply(levels, np.float32(3.0))
    graph = extract(load_model(ov.Model([ops.result(ops.exp(scaled))], [x], "scaled")))
    assert graph.types == ("Multiply", "Exp")


@pytest.mark.parametrize("source", ["built in", "onnx"])
def test_a_split_computes_in_integers_what_the_whole_model_does(
    source: str, from_onnx: ov.Model
) -> None:
    model = from_onnx if source == "onnx" else known_model("cnn-int8")
    graph, core = extract(model), ov.Core()
    whole, thirds = (np.arange(len(graph)) // period % 2 for period in (len(graph), 3))
    kernels = []
    for devices in (whole, thirds):
        partition = HeteroPartition.from_assignment(graph, devices, TESTBED, alias=True)
        compiled = compile_partition(core, model, graph, partition, {"PERF_COUNT": True})
        kernels.append(integer_kernels(compiled, model))
    if not kernels[0]:
        pytest.skip("OpenVINO has no int8 kernels for this processor")
    assert kernels[1] == kernels[0] <= graph.types.count("Convolution")


@pytest.mark.parametrize("source", ["built in", "onnx"])
def test_plain_operators_leave_no_integer_kernels(source: str, from_onnx: ov.Model) -> None:
    model = from_onnx if source == "onnx" else known_model("cnn-int8")
    plain = without_integer_kernels(model)
    assert integer_kernels(compile_in_f32(plain), model) == 0
    assert extract(plain).types.count("Convolution") == extract(model).types.count("Convolution")
    assert is_quantized(model)


def test_plain_operators_round_to_the_same_levels() -> None:
    x = ops.parameter([1, 64], np.float32, name="x")
    ends = (ops.constant(np.float32(end)) for end in (-1.0, 1.0, 0.0, 30.0))
    model = load_model(ov.Model([ops.result(ops.fake_quantize(x, *ends, 16))], [x], "rounded"))
    values = np.linspace(-1.3, 1.3, 64, dtype=np.float32)[None]
    found = compile_in_f32(without_integer_kernels(model))(values)[0]
    levels = np.round(7.5 * (np.clip(values, -1.0, 1.0) + 1.0))
    assert found == pytest.approx(2.0 * levels, abs=1e-5)
    assert found == pytest.approx(compile_in_f32(model)(values)[0], abs=1e-5)


def test_integers_of_the_built_in_network_do_not_overflow() -> None:
    model = known_model("cnn-int8")
    integers, plain = (
        outputs(compile_in_f32(one), model) for one in (model, without_integer_kernels(model))
    )
    assert relative_error(integers, plain) < 0.02


@pytest.mark.parametrize("half", [False, True])
def test_weights_that_are_rounded_to_eight_bits_take_one_byte(half: bool, tmp_path: Path) -> None:
    file = tmp_path / "saved.xml"
    ov.save_model(known_model("cnn-int8"), file, compress_to_fp16=half)
    rounded = extract(load_model(file)).weight_bytes.sum()
    assert rounded == pytest.approx(extract(load_model("cnn")).weight_bytes.sum() / 4, rel=0.02)


def test_stored_integers_take_one_byte(from_onnx: ov.Model) -> None:
    weights = sum(9 * a * b for a, b in zip((3, *CHANNELS), CHANNELS, strict=False))
    assert weights < extract(from_onnx).weight_bytes.sum() < 1.1 * weights


def test_analytic_costs_take_quantised_convolutions_as_integers(cnn: OpGraph) -> None:
    devices, plain = PRESETS["cpu+dgpu"], extract(load_model("cnn"))
    ratio = analytic(cnn, devices).operator_ms.sum(0) / analytic(plain, devices).operator_ms.sum(0)
    assert ratio[0] < 0.5
    assert cnn.integers is not None
    assert {"Convolution", "MatMul"} <= {
        kind for kind, rounded in zip(cnn.types, cnn.integers, strict=True) if rounded
    }


@pytest.mark.parametrize(
    ("name", "quantized"),
    [("cnn", False), ("cnn-fp16", False), ("cnn-int8", True), ("gpt", False), ("gpt-int4", True)],
)
def test_a_quantised_model_is_known_by_its_nodes(name: str, quantized: bool) -> None:
    assert is_quantized(load_model(name)) is quantized


@pytest.mark.parametrize(("dtype", "quantized"), [(np.int8, True), (np.float16, False)])
def test_weights_in_eight_bits_make_a_model_quantised(dtype: type, quantized: bool) -> None:
    assert is_quantized(convert(np.arange(4, dtype=dtype))) is quantized
