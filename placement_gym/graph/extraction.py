"""Extraction of the operator graph from an OpenVINO model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.base import IntArray, UserError, join_words, warn_user
from placement_gym.graph.flops import MOVING, node_flops
from placement_gym.graph.folding import fold
from placement_gym.graph.operators import (
    QUANTIZE,
    READER,
    WRITER,
    Body,
    OpGraph,
    Tensors,
    distinct_edges,
)
from placement_gym.models import (
    FoundShapes,
    InputsArgument,
    ModelSpec,
    list_dynamic,
    list_members,
    state_found_shapes,
)
from placement_gym.workloads import Request, make_request

if TYPE_CHECKING:
    import openvino as ov

BRANCHES = "If"
LOOPS = ("Loop", "TensorIterator")


def extract(
    model: ov.Model,
    view: str = "folded",
    scenario: str | None = None,
    inputs: InputsArgument | None = None,
    found: Sequence[FoundShapes] | None = None,
) -> OpGraph:
    """Extract the operator graph of a model with unique friendly names.

    Args:
        model: A model as ``load_model`` returns it.
        view: ``"raw"`` keeps all IR nodes. ``"folded"`` assigns constants, converts of weights,
            shape arithmetic and Parameters to their first reader, Results to their producer, and
            nodes that only round an activation, such as ``FakeQuantize``, to all of its readers.
        scenario: Scenario of a model with state, see ``Conversation.parse``; None is ``"chat"``.
        inputs: See ``load_model``.
        found: Shapes that depend on data, see ``Inspection``; None takes unknown sizes as 1.

    Raises:
        UserError: The scenario is unknown, or a model without state has one.
    """
    if not model.get_ordered_ops():
        raise UserError(f"model {model.get_friendly_name()!r} has no operators: nothing to place")
    graph = extract_request(model, view, make_request(model, scenario, inputs), found)
    if uncounted := graph.list_uncounted():
        warn_user(
            f"the data decide how often {join_words(uncounted)} runs what it holds, or on which "
            "sizes: in simulations and features it counts as one iteration of size 1, only "
            "measurements are right"
        )
    models = list_members(model)
    return replace(graph, models=models) if models else graph


def extract_spec(
    model: ov.Model, spec: ModelSpec, found: Sequence[FoundShapes] | None = None
) -> OpGraph:
    """Extract the graph of a loaded model by its specification; see ``extract``."""
    return extract(model, spec.graph, spec.scenario, spec.inputs, found)


def extract_request(
    model: ov.Model, view: str, request: Request, found: Sequence[FoundShapes] | None = None
) -> OpGraph:
    """Extract the graph of a whole request, see ``OpGraph``."""
    shapes = request.list_shapes(model)
    undecided = list_dynamic((shapes[0].nodes or {}).values())
    found = found or [dict.fromkeys(undecided, ())] * len(shapes)
    for shaped, of_data in zip(shapes, found, strict=True):
        state_found_shapes(shaped.nodes or {}, of_data)
    graphs = [raw_graph(model, shaped.nodes) for shaped in shapes]
    if view != "raw":
        dynamic = any(port.get_partial_shape().is_dynamic for port in model.inputs)
        graphs = [fold(graph, dynamic) for graph in graphs]
    first, *later = graphs
    if undecided:
        first = replace(first, found=tuple(found))
    if not later:
        return replace(first, request=request)
    # Work and transfers are summed over inferences; memory is that of the last, the largest.
    counts = [shaped.runs for shaped in shapes]
    phases = tuple((count, graph) for count, graph in zip(counts, graphs, strict=True) if count)
    sizes = sum(count * graph.tensors.size_bytes for count, graph in phases)
    return replace(
        first,
        weight_bytes=graphs[-1].weight_bytes,
        state_bytes=graphs[-1].state_bytes,
        flops=np.sum([count * graph.flops for count, graph in phases], axis=0),
        tensors=replace(
            first.tensors,
            size_bytes=np.round(sizes).astype(np.int64),
            held_bytes=np.max([graph.tensors.size_bytes for graph in graphs], axis=0),
        ),
        request=request,
        phases=phases if len(phases) > 1 else (),
    )


def raw_graph(model: ov.Model, static: Mapping[str, ov.Node] | None = None) -> OpGraph:
    """Make an operator of each IR node; ``static`` are nodes with static shapes by name."""
    nodes = model.get_ordered_ops()
    shaped = nodes if static is None else [static[node.get_friendly_name()] for node in nodes]
    names = [node.get_friendly_name() for node in nodes]
    # By OpenVINO's own names: friendly names may occur again in bodies, whose nodes may read the
    # model's constants.
    index = {node.get_name(): position for position, node in enumerate(nodes)}
    tensors = read_tensors(nodes, shaped, index)
    tensor, reader = tensors.readings()
    edges = distinct_edges(np.stack([tensors.source[tensor], reader]))
    parameters = [index[node.get_name()] for node in model.get_parameters()]
    # An operator holds the weights of all of its bodies, and computes the one with most work.
    state_bytes, bodies = measure_states(nodes, shaped), extract_bodies(shaped)
    weights = measure_weights(nodes)
    flops = np.array([node_flops(node) if is_static(node) else 0.0 for node in shaped])
    for node, inside in bodies.items():
        weights[node] = sum(int(body.graph.weight_bytes.sum()) for body in inside)
        flops[node] = max(body.runs * float(body.graph.flops.sum()) for body in inside)
    return OpGraph(
        model=model.get_friendly_name(),
        names=tuple(names),
        types=tuple(node.get_type_name() for node in nodes),
        shapes=tuple(
            smallest_shape(node.output(0)) if node.get_output_size() else () for node in shaped
        ),
        element_types=tuple(
            node.output(0).get_element_type().get_type_name() if node.get_output_size() else ""
            for node in nodes
        ),
        members=tuple((name,) for name in names),
        weight_bytes=weights + state_bytes,
        flops=flops,
        edge_index=edges,
        tensors=tensors,
        inputs=tuple(tuple(edges[1, edges[0] == node].tolist()) for node in parameters),
        states=find_states(nodes),
        state_bytes=state_bytes,
        outputs=find_outputs(model, index),
        bodies=bodies,
    )


def read_tensors(
    nodes: Sequence[ov.Node], shaped: Sequence[ov.Node], index: Mapping[str, int]
) -> Tensors:
    """List tensors between nodes, with sizes of ``shaped``; ``index`` has OpenVINO's own names."""
    made: list[tuple[int, int, int]] = []
    readings: list[tuple[int, int]] = []
    for position, (node, with_shapes) in enumerate(zip(nodes, shaped, strict=True)):
        for output, sized in zip(node.outputs(), with_shapes.outputs(), strict=True):
            names = [port.get_node().get_name() for port in output.get_target_inputs()]
            readings += [(len(made), index[name]) for name in names if name in index]
            n_bytes = int(np.prod(smallest_shape(sized))) * output.get_element_type().size
            made.append((position, output.get_index(), n_bytes))
    source, port, size_bytes = np.array(made, dtype=np.int64).reshape(-1, 3).T
    tensor, reader = np.array(readings, dtype=np.int64).reshape(-1, 2).T
    # `read_by` sorts the readings and sets offsets and readers.
    unread = Tensors(source, port, size_bytes, offsets=reader[:0], readers=reader[:0])
    return unread.read_by(tensor, reader, source)


def measure_weights(nodes: Sequence[ov.Node]) -> IntArray:
    """(n,) bytes that a device stores of each node; zero except for constants."""
    kinds = [node.get_type_name() for node in nodes]
    if QUANTIZE in kinds:
        from placement_gym.graph.rounding import weight_bytes

        return np.array([weight_bytes(node) for node in nodes], dtype=np.int64)
    sizes = [
        node.get_byte_size() if kind == "Constant" else 0
        for node, kind in zip(nodes, kinds, strict=True)
    ]
    return np.array(sizes, dtype=np.int64)


def extract_bodies(nodes: Sequence[ov.Node]) -> dict[int, tuple[Body, ...]]:
    """Extract bodies by the position of their node."""
    bodies_of = {}
    for position, node in enumerate(nodes):
        models = list_bodies(node)
        if models:
            runs = count_iterations(node)
            sized = all(is_static(inner) for model in models for inner in model.get_ops())
            graphs = [fold(raw_graph(model)) for model in models]
            is_known = runs is not None and sized
            bodies_of[position] = tuple(
                Body(graph, 1 if runs is None else runs, is_known) for graph in graphs
            )
    return bodies_of


def list_bodies(node: ov.Node) -> list[ov.Model]:
    """List the bodies of a node: two of an ``If``, one of a loop, else none."""
    kind = node.get_type_name()
    if kind == BRANCHES:
        return [node.get_then_body(), node.get_else_body()]
    return [node.get_function()] if kind in LOOPS else []


def count_iterations(node: ov.Node) -> int | None:
    """Count the runs of a node's body; None if they depend on data."""
    if node.get_type_name() == BRANCHES:
        return 1
    count: int = node.get_num_iterations()
    return count if count >= 0 else None


def find_outputs(model: ov.Model, index: Mapping[str, int]) -> tuple[int, ...]:
    """Find the positions of nodes that produce the model's outputs."""
    sources = (result.input(0).get_source_output() for result in model.get_results())
    return tuple(sorted({index[source.get_node().get_name()] for source in sources}))


def find_states(nodes: Sequence[ov.Node]) -> tuple[tuple[int, ...], ...]:
    """(n_states,) positions of the operators that access each state.

    They are ``ReadValue`` and ``Assign``, which OpenVINO cannot separate, and readers up to the
    first that compute, such as attention. Other devices may read the state's shape.
    """
    index = {node.get_friendly_name(): position for position, node in enumerate(nodes)}
    states: dict[str, set[int]] = {}
    for node in nodes:
        if node.get_type_name() in (READER, WRITER):
            states.setdefault(node.get_attributes()["variable_id"], set()).update(
                index[name] for name in list_accessing(node)
            )
    return tuple(tuple(sorted(states[name])) for name in sorted(states))


def list_accessing(node: ov.Node) -> set[str]:
    """Find the names of a node and its readers, also through nodes that only move data."""
    names, waiting = {node.get_friendly_name()}, [node]
    while waiting:
        here = waiting.pop()
        if here.get_type_name() == WRITER:
            continue
        for output in here.outputs():
            for port in output.get_target_inputs():
                reader = port.get_node()
                name, kind = reader.get_friendly_name(), reader.get_type_name()
                if name in names or kind in ("Result", "ShapeOf"):
                    continue
                names.add(name)
                if kind in MOVING:
                    waiting.append(reader)
    return names


def measure_states(nodes: Sequence[ov.Node], shaped: Sequence[ov.Node]) -> IntArray:
    """(n,) bytes that each ``ReadValue`` holds after ``Assign``, at upper bounds of dimensions."""
    written = {
        node.get_attributes()["variable_id"]: static.input(0)
        for node, static in zip(nodes, shaped, strict=True)
        if node.get_type_name() == WRITER
    }
    size_bytes = np.zeros(len(nodes), dtype=np.int64)
    for position, node in enumerate(nodes):
        if node.get_type_name() == READER:
            port = written[node.get_attributes()["variable_id"]]
            sizes = bound(node.output(0).get_partial_shape(), smallest_shape(port))
            size_bytes[position] = int(np.prod(sizes)) * port.get_element_type().size
    return size_bytes


def bound(declared: ov.PartialShape, actual: Sequence[int]) -> list[int]:
    """Return sizes, raised to the upper bounds of dimensions."""
    if declared.rank.is_dynamic:
        return list(actual)
    limits = [size.get_max_length() if size.is_dynamic else -1 for size in declared]
    return [max(size, limit) for size, limit in zip(actual, limits, strict=True)]


def is_static(node: ov.Node) -> bool:
    """Return whether the shapes of all inputs and outputs are known."""
    ports = [*node.inputs(), *node.outputs()]
    return all(port.get_partial_shape().is_static for port in ports)


def smallest_shape(port: ov.Output) -> tuple[int, ...]:
    """Return the shape of an output; dynamic dimensions, which only bodies have, become 1."""
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return ()
    # By index: an iteration over OpenVINO's shapes ends by a C++ exception, which takes longer.
    sizes = (shape[axis] for axis in range(len(shape)))
    return tuple(size.get_length() if size.is_static else 1 for size in sizes)
