from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import openvino as ov
import pytest
from foreign_models import make_encoder
from graphs import TWO_DEVICES, GraphOf, alternating, problem_on
from openvino import opset13 as ops

from placement_gym.base import PlacementGymWarning
from placement_gym.deployment import apply_placement, compile_model
from placement_gym.graph import OpGraph, acyclic_submodels, extract
from placement_gym.hardware import PRESETS, DeviceSpec, register
from placement_gym.models import load_model
from placement_gym.problem import Placement, PlacementMismatchError, Problem


@pytest.fixture(scope="module")
def core() -> ov.Core:
    core = ov.Core()
    register(core, TWO_DEVICES)
    return core


def affinities(model: ov.Model) -> dict[str, str]:
    nodes = model.get_ordered_ops()
    return {n.get_friendly_name(): n.get_rt_info()["affinity"].astype(str) for n in nodes}


def shared_values(pattern: str) -> ov.Model:
    """Three branches that share a compressed weight and a constant or computed pattern."""
    data = ops.parameter([2, 4, 6], np.float32, name="x")
    values = np.linspace(-1, 1, 36).reshape(6, 6).astype(np.float16)
    weight = ops.convert(ops.constant(values), "f32")
    batch = ops.constant(np.array([2]))
    if pattern == "computed":
        batch = ops.gather(ops.shape_of(data), np.array([0]), np.array(0))
    shape = ops.concat([batch, ops.constant(np.array([24]))], 0)
    products = [ops.matmul(f(data), weight, False, False) for f in (ops.relu, ops.tanh, ops.exp)]
    branches = [ops.reshape(product, shape, False) for product in products]
    return ov.Model([ops.result(ops.concat(branches, 1))], [data], "shared values")


def answer(core: ov.Core, model: ov.Model, device: str) -> Any:
    properties = {"INFERENCE_PRECISION_HINT": "f32"}
    split = {"DEVICE_PROPERTIES": {spec.name: properties for spec in TWO_DEVICES}}
    compiled = core.compile_model(model, device, split if "HETERO" in device else properties)
    rng = np.random.default_rng(0)
    return compiled([rng.random(port.shape, dtype=np.float32) for port in compiled.inputs])[0]


def test_assignment_follows_the_given_order_of_devices(
    graph_of: GraphOf, tiny: Problem, mixed: Placement
) -> None:
    swapped = problem_on(graph_of("tiny", "folded"), TWO_DEVICES[::-1], "colocated")
    assert mixed.assignment(swapped).tolist() == (1 - alternating(tiny)).tolist()


def test_placement_for_another_model_is_refused_with_both_names(mixed: Placement) -> None:
    other = load_model("tiny-fp16")
    with pytest.raises(PlacementMismatchError, match=r"'tiny'.*'tiny-fp16'"):
        apply_placement(other, mixed)
    with pytest.raises(PlacementMismatchError, match=r"'tiny'.*'tiny-fp16'"):
        compile_model(ov.Core(), other, mixed)
    assert not any("affinity" in node.get_rt_info() for node in other.get_ordered_ops())


@pytest.mark.parametrize(
    ("name", "granularity", "devices", "message"),
    [
        ("resnet", "colocated", TWO_DEVICES, r"'tiny'.*'resnet'"),
        ("tiny", "op", TWO_DEVICES, "same granularity"),
        ("tiny", "colocated", PRESETS["cpu+dgpu"], r"CPU_FAST.*GPU"),
    ],
)
def test_assignment_for_another_problem_is_refused(
    name: str,
    granularity: str,
    devices: tuple[DeviceSpec, ...],
    message: str,
    graph_of: GraphOf,
    mixed: Placement,
) -> None:
    with pytest.raises(PlacementMismatchError, match=message):
        mixed.assignment(problem_on(graph_of(name, "folded"), devices, granularity))


def test_assignment_with_a_unit_too_many_or_too_few_is_refused(
    tiny: Problem, mixed: Placement
) -> None:
    first = next(iter(mixed.units))
    fewer = {unit: device for unit, device in mixed.units.items() if unit != first}
    for units in (fewer, {**mixed.units, "no such unit": "CPU"}):
        with pytest.raises(PlacementMismatchError, match="same granularity"):
            replace(mixed, units=units).assignment(tiny)


@pytest.mark.parametrize("view", ["folded", "raw"])
@pytest.mark.parametrize("granularity", ["op", "colocated"])
def test_every_node_gets_the_affinity_of_its_unit(
    graph_of: GraphOf, view: str, granularity: str
) -> None:
    problem = problem_on(graph_of("tiny-fp16", view), granularity=granularity)
    placement = Placement.from_assignment(problem, alternating(problem), view)
    model = load_model("tiny-fp16")
    apply_placement(model, placement)
    found = affinities(model)
    assert set(found) >= set(graph_of("tiny-fp16", "raw").names)
    neighbours = ("Constant", "Parameter", "Result")
    for operator, unit in enumerate(problem.units.of_operator.tolist()):
        if problem.units.graph.types[operator] not in neighbours:
            device = placement.units[problem.units.names[unit]]
            assert found[problem.units.graph.names[operator]] == device


def test_placement_of_a_users_own_dictionary_is_applied(tiny: Problem, mixed: Placement) -> None:
    first, *others = tiny.units.names
    units = dict.fromkeys(others, "CPU_FAST") | {first: "CPU"}
    model = load_model("tiny")
    apply_placement(model, replace(mixed, units=units))
    found = affinities(model)
    assert {unit: found[unit] for unit in units} == units


def test_applied_placement_runs_split_and_computes_the_same(
    core: ov.Core, tiny: Problem, mixed: Placement
) -> None:
    model = load_model("tiny")
    expected = answer(core, model, "CPU")
    apply_placement(model, mixed)
    compiled = core.compile_model(model, "HETERO:CPU,CPU_FAST")
    operators = alternating(tiny)[tiny.units.of_operator]
    submodels = acyclic_submodels(tiny.units.graph, operators)
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == submodels.max() + 1
    np.testing.assert_allclose(answer(core, model, "HETERO:CPU,CPU_FAST"), expected, rtol=1e-4)


@pytest.mark.parametrize("pattern", ["constant", "computed"])
def test_values_shared_by_both_devices_are_computed_on_each(core: ov.Core, pattern: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(4):
        model = load_model(shared_values(pattern))
        expected = answer(core, model, "CPU")
        problem = problem_on(extract(model))
        apply_placement(
            model, Placement.from_assignment(problem, rng.integers(0, 2, problem.n_units))
        )
        found = answer(core, model, "HETERO:CPU,CPU_FAST")
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_plain_hetero_may_refuse_scattered_parts_of_a_dynamic_model() -> None:
    inputs = {"input_ids": np.ones((1, 8), np.int64)}
    model = load_model(make_encoder(), inputs=inputs)
    problem = problem_on(extract(model, inputs=inputs))
    scattered = Placement.from_assignment(
        problem, np.random.default_rng(0).integers(0, 2, problem.n_units)
    )
    with pytest.warns(PlacementGymWarning, match="Can't set the input tensor.*use compile_model"):
        apply_placement(model, scattered)
    halves = np.arange(problem.n_units) * 2 // problem.n_units
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apply_placement(model, Placement.from_assignment(problem, halves))


@pytest.mark.parametrize("pattern", ["constant", "computed"])
def test_branch_moved_away_is_one_further_submodel(core: ov.Core, pattern: str) -> None:
    model = load_model(shared_values(pattern))
    problem = problem_on(extract(model))
    assignment = problem.single(0)
    assignment[branch(problem.units.graph, "Tanh")] = 1
    apply_placement(model, Placement.from_assignment(problem, assignment))
    compiled = core.compile_model(model, "HETERO:CPU,CPU_FAST")
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == 2


@pytest.mark.parametrize("moved", ["Relu", "Tanh", "Exp"])
@pytest.mark.parametrize("split", ["alias", "hetero"])
def test_expected_submodels_are_made_with_a_shared_input(
    core: ov.Core, split: str, moved: str
) -> None:
    model = load_model(shared_values("constant"))
    problem = problem_on(extract(model))
    assignment = problem.single(0)
    assignment[branch(problem.units.graph, moved)] = 1
    compiled = compile_model(core, model, Placement.from_assignment(problem, assignment), split)
    expected = acyclic_submodels(problem.units.graph, assignment).max() + 1
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == expected


def branch(graph: OpGraph, kind: str) -> list[int]:
    """The operators from the one of a kind to where the branches meet."""
    operators = [graph.types.index(kind)]
    while graph.types[operators[-1]] != "Concat":
        operators.append(int(graph.edge_index[1, graph.edge_index[0] == operators[-1]][0]))
    return operators[:-1]


@pytest.mark.parametrize("name", ["dynamic", "read_from_a_file"])
def test_inputs_of_other_sizes_than_the_placements_are_named(name: str) -> None:
    x = ops.parameter([-1, 8], np.float32, name="x")
    x.output(0).get_tensor().set_names({"x"})
    model = ov.Model([ops.result(ops.relu(x))], [x], "dynamic")
    graphs = []
    for rows in (3, 4):
        inputs = {"x": np.ones((rows, 8))}
        graphs.append(extract(load_model(model, inputs=inputs), inputs=inputs))
        model.set_friendly_name(name)
    problem = problem_on(graphs[0])
    placement = Placement.from_assignment(problem, problem.single(0))
    with pytest.raises(PlacementMismatchError, match=r"inputs of \{'x': \(3, 8\)\}, and these"):
        placement.operator_devices(graphs[1])


def test_a_unit_without_operators_leaves_its_name_to_another_one() -> None:
    """OpenVINO's counter gives an operator the name of one that is gone."""

    def chain_of(names: list[str]) -> OpGraph:
        x = ops.parameter([1, 8], np.float32, name="x")
        out: ov.Node = x
        for layer in range(2):
            matrix = ops.constant(np.ones((8, 8), np.float32), name=f"w{layer}")
            out = ops.matmul(out, matrix, False, False, name=f"product{layer}")
            if layer < len(names):
                out = ops.sigmoid(out, name=names[layer])
        return extract(ov.Model([ops.result(out)], [x], "chain"))

    problem = problem_on(chain_of(["Sigmoid_5", "Sigmoid_7"]), granularity="op")
    placement = Placement.from_assignment(problem, np.array([0, 0, 1, 1]))
    graph = chain_of(["Sigmoid_7"])
    devices = dict(zip(graph.names, placement.operator_devices(graph).tolist(), strict=True))
    assert devices == {"product0": 0, "Sigmoid_7": 0, "product1": 1}
