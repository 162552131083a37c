# White-box tests of graph
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openvino as ov
import pytest
from graphs import GraphOf, is_topological
from numpy.typing import NDArray
from openvino import opset13 as ops

from placement_gym.graph import OpGraph, extract
from placement_gym.graph.flops import node_flops
from placement_gym.models import load_model

MODELS = ("tiny", "tiny-fp16", "resnet-fp16", "inception-fp16", "bert-8-fp16")


def x(*shape: int) -> ov.Node:
    return ops.parameter(list(shape), np.float32, name="x")


def zeros(*shape: int) -> NDArray[np.float32]:
    return np.zeros(shape, np.float32)


def named(name: str, node: ov.Node) -> ov.Node:
    node.set_friendly_name(name)
    return node


def model_of(*outputs: ov.Node, inputs: list[ov.Node], name: str = "model") -> ov.Model:
    return load_model(ov.Model([ops.result(output) for output in outputs], inputs, name))


def edges(graph: OpGraph) -> set[tuple[str, str]]:
    return {(graph.names[a], graph.names[b]) for a, b in graph.edge_index.T.tolist()}


def members(graph: OpGraph) -> dict[str, set[str]]:
    return {name: set(nodes) for name, nodes in zip(graph.names, graph.members, strict=True)}


def convolution(kernel: int, channels: int = 8) -> ov.Model:
    """The same names and shapes for every odd kernel."""
    image = named("image", x(1, 3, 16, 16))
    weight = named("weight", ops.constant(zeros(channels, 3, kernel, kernel)))
    pads = [kernel // 2] * 2
    conv = named("conv", ops.convolution(image, weight, [1, 1], pads, pads, [1, 1]))
    return load_model(ov.Model([named("result", ops.result(conv))], [image], "convolution"))


def test_shared_constant_is_no_edge_and_belongs_to_one_reader() -> None:
    """Two products read one constant through one Convert."""
    data = named("x", x(1, 4))
    stored = named("stored", ops.constant(np.ones((4, 4), np.float16)))
    weight = named("weight", ops.convert(stored, "f32"))
    first = named("first", ops.matmul(named("relu", ops.relu(data)), weight, False, False))
    second = named("second", ops.matmul(named("tanh", ops.tanh(data)), weight, False, False))
    graph = extract(model_of(first, second, inputs=[data]))
    assert edges(graph) == {("relu", "first"), ("tanh", "second")}
    (owner,) = (nodes for nodes in members(graph).values() if "stored" in nodes)
    assert {"stored", "weight"} <= owner
    assert len(owner & {"first", "second"}) == 1


@pytest.mark.parametrize("name", MODELS)
def test_raw_graph_keeps_every_node(built: Callable[[str], ov.Model], name: str) -> None:
    nodes = built(name).get_ordered_ops()
    raw = extract(built(name), "raw")
    assert raw.names == tuple(node.get_friendly_name() for node in nodes)
    assert raw.types == tuple(node.get_type_name() for node in nodes)
    assert raw.members == tuple((name,) for name in raw.names)


@pytest.mark.parametrize("name", MODELS)
def test_folding_keeps_all_nodes_weights_and_work(graph_of: GraphOf, name: str) -> None:
    raw, folded = graph_of(name, "raw"), graph_of(name, "folded")
    listed = [node for nodes in folded.members for node in nodes]
    assert sorted(listed) == sorted(raw.names)
    assert all(operator in nodes for operator, nodes in members(folded).items())
    assert folded.weight_bytes.sum() == raw.weight_bytes.sum() > 0
    assert folded.flops.sum() == pytest.approx(raw.flops.sum())
    assert not {"Constant", "Parameter", "Result", "ShapeOf"} & set(folded.types)


def test_converts_of_weights_fold_away_and_those_of_data_stay(graph_of: GraphOf) -> None:
    assert "Convert" in graph_of("resnet-fp16", "raw").types
    assert graph_of("resnet-fp16", "folded").types == graph_of("resnet", "folded").types
    assert graph_of("bert-8-fp16", "folded").types.count("Convert") == 1


def test_shape_chain_folds_into_its_consumer() -> None:
    """The pattern of a Reshape is computed from the shape of another tensor."""
    data = named("x", x(2, 3, 4))
    relu = named("relu", ops.relu(data))
    shape = named("shape", ops.shape_of(named("tanh", ops.tanh(data))))
    batch = named("batch", ops.gather(shape, np.array([0]), np.array(0)))
    pattern = named("pattern", ops.concat([batch, ops.constant(np.array([12]))], 0))
    reshape = named("reshape", ops.reshape(relu, pattern, False))
    graph = extract(model_of(named("exp", ops.exp(reshape)), inputs=[data]))
    assert set(graph.names) == {"relu", "tanh", "reshape", "exp"}
    assert {"shape", "batch", "pattern"} <= members(graph)["reshape"]
    assert {("relu", "reshape"), ("reshape", "exp")} <= edges(graph)


def test_random_numbers_from_constants_stay_an_operator() -> None:
    data = named("x", x(2, 3))
    low, high = ops.constant(np.float32(0)), ops.constant(np.float32(1))
    shape = ops.constant(np.array([2, 3]))
    random = named("random", ops.random_uniform(shape, low, high, "f32"))
    scaled = named("scaled", ops.multiply(random, ops.constant(np.float32(2))))
    graph = extract(model_of(named("sum", ops.add(data, scaled)), inputs=[data]))
    assert set(graph.names) == {"random", "scaled", "sum"}
    assert edges(graph) == {("random", "scaled"), ("scaled", "sum")}


def test_parameter_joins_its_reader_and_result_its_producer() -> None:
    data = named("x", x(1, 4))
    first = named("first", ops.relu(data))
    second = named("second", ops.add(first, data))
    result = named("answer", ops.result(second))
    graph = extract(load_model(ov.Model([result], [data], "model")))
    assert members(graph) == {"first": {"x", "first"}, "second": {"second", "answer"}}
    assert graph.inputs == ((0, 1),)


def test_model_that_only_passes_its_input_on_keeps_one_operator() -> None:
    data = named("x", x(1, 4))
    graph = extract(load_model(ov.Model([named("answer", ops.result(data))], [data], "identity")))
    assert len(graph) == 1
    assert set(graph.members[0]) == {"x", "answer"}


def test_tensor_counts_once_for_each_producing_port() -> None:
    data = named("x", x(1, 8))
    axis = ops.constant(np.array(1, np.int64))
    split = named("split", ops.split(named("relu", ops.relu(data)), axis, 2))
    readers = [
        named("square", ops.multiply(split.output(0), split.output(0))),
        named("tanh", ops.tanh(split.output(0))),
        named("both", ops.add(split.output(0), split.output(1))),
    ]
    graph = extract(model_of(*readers, inputs=[data]))
    tensors, at = graph.tensors, graph.names.index("split")
    ports = {
        int(tensors.port[i]): {
            graph.names[r] for r in tensors.readers[tensors.offsets[i] : tensors.offsets[i + 1]]
        }
        for i in np.flatnonzero(tensors.source == at)
    }
    assert ports == {0: {"square", "tanh", "both"}, 1: {"both"}}
    assert set(tensors.size_bytes[tensors.source == at]) == {4 * 4}
    assert (tensors.source == at).sum() == 2


@pytest.mark.parametrize("view", ["raw", "folded"])
@pytest.mark.parametrize("name", MODELS)
def test_tensors_are_listed_once_and_read_along_sorted_edges(
    graph_of: GraphOf, name: str, view: str
) -> None:
    graph = graph_of(name, view)
    tensors, (tensor, reader) = graph.tensors, graph.tensors.readings()
    read = zip(tensors.source[tensor].tolist(), reader.tolist(), strict=True)
    assert set(read) == set(map(tuple, graph.edge_index.T.tolist()))
    assert is_topological(graph.edge_index)
    ports = list(zip(tensors.source.tolist(), tensors.port.tolist(), strict=True))
    assert len(ports) == len(set(ports)) > 0


def test_weight_bytes_are_elements_times_element_size() -> None:
    assert extract(convolution(kernel=3)).weight_bytes.tolist() == [8 * 3 * 3 * 3 * 4]


def test_fp16_weights_take_half_the_bytes(graph_of: GraphOf) -> None:
    full, half = (graph_of(name, "folded").weight_bytes.sum() for name in ("tiny", "tiny-fp16"))
    assert half == pytest.approx(full / 2, rel=1e-3)


def test_fingerprint_tells_views_and_models_apart_but_not_builds(graph_of: GraphOf) -> None:
    found = {graph_of(name, view).fingerprint() for name in MODELS for view in ("raw", "folded")}
    assert len(found) == 2 * len(MODELS)
    assert extract(load_model("tiny")).fingerprint() == graph_of("tiny", "folded").fingerprint()


@pytest.mark.parametrize("view", ["raw", "folded"])
def test_fingerprint_changes_with_the_size_of_weights_alone(view: str) -> None:
    three, five = (extract(convolution(kernel), view) for kernel in (3, 5))
    assert (three.names, three.types) == (five.names, five.types)
    assert three.fingerprint() != five.fingerprint()


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(
            ops.convolution(x(1, 3, 8, 8), zeros(16, 3, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1]),
            2 * (16 * 8 * 8) * (3 * 3 * 3),
            id="convolution",
        ),
        pytest.param(
            ops.convolution(x(1, 3, 8, 8), zeros(16, 3, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1]),
            2 * (16 * 4 * 4) * (3 * 3 * 3),
            id="strided convolution",
        ),
        pytest.param(
            ops.group_convolution(
                x(1, 8, 4, 4), zeros(4, 3, 2, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1]
            ),
            2 * (12 * 4 * 4) * (2 * 3 * 3),
            id="group convolution",
        ),
        pytest.param(
            ops.convolution_backprop_data(x(1, 3, 4, 4), zeros(3, 5, 2, 2), [2, 2]),
            2 * (3 * 4 * 4) * (5 * 2 * 2),
            id="transposed convolution",
        ),
        pytest.param(
            ops.matmul(x(2, 3, 4), zeros(4, 5), False, False), 2 * 2 * 3 * 5 * 4, id="matmul"
        ),
        pytest.param(
            ops.matmul(x(2, 4, 3), zeros(5, 4), True, True),
            2 * 2 * 3 * 5 * 4,
            id="transposed matmul",
        ),
        pytest.param(ops.matmul(x(7), zeros(7), False, False), 2 * 7, id="dot product"),
        pytest.param(ops.relu(x(2, 3)), 6, id="one operation an element"),
        pytest.param(
            ops.max_pool(x(1, 2, 8, 8), [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]),
            (2 * 4 * 4) * (2 * 2),
            id="pooling",
        ),
        pytest.param(
            ops.reduce_mean(x(1, 2, 8, 8), np.array([2, 3]), True), 2 * 8 * 8, id="reduction"
        ),
        pytest.param(ops.reshape(x(2, 3), np.array([6]), False), 0, id="reshape moves only"),
        pytest.param(ops.transpose(x(2, 3), np.array([1, 0])), 0, id="transpose moves only"),
        pytest.param(
            ops.lstm_sequence(
                x(2, 5, 3),
                zeros(2, 1, 4),
                zeros(2, 1, 4),
                np.array([5, 5]),
                zeros(1, 16, 3),
                zeros(1, 16, 4),
                zeros(1, 16),
                4,
                "FORWARD",
            ),
            2 * 2 * 5 * 16 * (3 + 4),
            id="lstm",
        ),
    ],
)
def test_flops_are_those_counted_by_hand(node: ov.Node, expected: float) -> None:
    assert node_flops(node) == expected


def test_attention_counts_its_two_products_and_the_softmax() -> None:
    query, key, value = x(1, 2, 5, 4), x(1, 2, 7, 4), x(1, 2, 7, 6)
    attention = ops.scaled_dot_product_attention(query, key, value)
    softmax = node_flops(ops.softmax(x(1, 2, 5, 7), 3))
    assert node_flops(attention) == 2 * (10 * 7) * 4 + 2 * (10 * 6) * 7 + softmax


@pytest.mark.parametrize(
    ("name", "multiply_adds"),
    [
        ("resnet", 4.09e9),
        ("inception", 5.71e9),
        pytest.param("bert", 12 * (128 * 7077888 + 2 * 128**2 * 768), marks=pytest.mark.slow),
    ],
)
def test_models_do_the_work_that_is_known_of_them(
    graph_of: GraphOf, name: str, multiply_adds: float
) -> None:
    assert graph_of(name, "folded").flops.sum() == pytest.approx(2 * multiply_adds, rel=0.01)
