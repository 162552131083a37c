# White-box tests of graph
"""Models with state: which operators stay together, and the graph of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from placement_gym.graph import OpGraph, acyclic_submodels, extract, group
from placement_gym.graph.extraction import bound, smallest_shape
from placement_gym.hardware import PRESETS
from placement_gym.models import load_model
from placement_gym.problem.costs import analytic, operator_times, parse_schedule
from placement_gym.schedules import Simulator
from placement_gym.workloads import Conversation


@cache
def gpt_graph(view: str = "folded", scenario: str = "chat-6-4") -> OpGraph:
    return extract(load_model("gpt"), view, scenario)


@pytest.mark.parametrize(
    ("declared", "read"),
    [([2, 3, 4], (2, 3, 4)), ([-1, 3], (1, 3)), ([], ()), (ov.PartialShape.dynamic(), ())],
)
def test_dynamic_dimensions_are_read_as_one(declared: object, read: tuple[int, ...]) -> None:
    assert smallest_shape(ops.parameter(declared, np.float32).output(0)) == read


def running_sum() -> ov.Model:
    """The state is read, changed by two operators and written again."""
    x = ops.parameter([1, -1], np.float32, name="x")
    past = ops.read_value(np.zeros((1, 1), np.float32), "total", np.float32, [1, 1], name="past")
    once = ops.tanh(ops.reduce_sum(x, 1, keep_dims=True), name="now")
    total = ops.relu(ops.add(past, once, name="add"), name="total")
    written = ops.assign(total, "total")
    written.set_friendly_name("written")
    return ov.Model([ops.result(ops.add(x, total, name="out"))], [written], [x], "running")


@pytest.mark.parametrize("view", ["folded", "raw"])
@pytest.mark.parametrize("granularity", ["op", "colocated", "fused"])
def test_what_accesses_a_state_is_one_unit(view: str, granularity: str) -> None:
    graph = gpt_graph(view)
    units = group(graph, granularity, {name: name for name in graph.names})
    found = {graph.names[one]: units.of_operator[one] for state in graph.states for one in state}
    for layer in range(4):
        names = [name for name in found if name.startswith(f"layer{layer}/")]
        parts = ["key/past", "key/all", "key/assign", "value/past", "value/all", "value/assign"]
        assert set(names) == {f"layer{layer}/{part}" for part in [*parts, "attention"]}
        assert len({found[name] for name in names}) == 1
    assert len({*found.values()}) == 4


def test_unit_of_a_state_is_named_after_the_attention() -> None:
    units = group(gpt_graph(), "op")
    assert units.quotient.types.count("ScaledDotProductAttention") == 4
    assert not {"Assign", "ReadValue"} & set(units.quotient.types)


def test_operators_between_reading_and_writing_join_the_state() -> None:
    units = group(extract(load_model(running_sum()), scenario="chat-3-2"), "op")
    together = next(names for names in units.quotient.members if "past" in names)
    assert {"past", "add", "total", "written"} <= set(together)
    assert units.names[1:] == ("now", "total", "out")


@pytest.mark.parametrize("view", ["folded", "raw"])
def test_no_submodel_parts_a_state(view: str) -> None:
    graph = gpt_graph(view)
    units = group(graph, "op")
    rng = np.random.default_rng(0)
    for _ in range(20):
        submodels = acyclic_submodels(graph, rng.integers(0, 2, len(units))[units.of_operator])
        assert all(len(set(submodels[list(state)])) == 1 for state in graph.states)


def test_simulated_submodels_are_those_that_are_compiled() -> None:
    graph = gpt_graph()
    units, devices = group(graph, "op"), PRESETS["cpu+dgpu"]
    simulator = Simulator(units, analytic(graph, devices), parse_schedule("serial", "latency"))
    rng = np.random.default_rng(1)
    for _ in range(10):
        placement = rng.integers(0, 2, len(units))
        made = acyclic_submodels(graph, placement[units.of_operator]).max() + 1
        assert simulator.submodels(placement.astype(np.uint8)).sum() == made


def test_scenario_adds_up_all_of_its_inferences() -> None:
    """Each layer multiplies new tokens by its matrices, and by the keys and values so far."""
    graph = gpt_graph(scenario="chat-6-4")
    flops = dict(zip(graph.names, graph.flops, strict=True))
    assert flops["layer0/inner/matmul"] == 2 * (6 + 4) * 256 * 1024
    attended = 6 * 6 + 7 + 8 + 9 + 10
    assert flops["layer0/attention"] == pytest.approx(4 * attended * (2 * 64 + 2 * 64 + 5))


def test_scenario_moves_the_tensors_of_all_inferences() -> None:
    graph = gpt_graph(scenario="chat-6-4")
    sizes = dict(zip(graph.tensors.source.tolist(), graph.tensors.size_bytes.tolist(), strict=True))
    assert sizes[graph.names.index("layer0/sum1")] == (6 + 4) * 256 * 4
    assert sizes[graph.names.index("mask/bias")] == (6 * 6 + 7 + 8 + 9 + 10) * 4


def test_memory_includes_the_cache_at_the_end_of_the_scenario() -> None:
    graph = gpt_graph(scenario="chat-6-4")
    held = dict(zip(graph.names, graph.weight_bytes.tolist(), strict=True))
    assert held["layer0/key/past"] == 4 * 64 * (6 + 4) * 4


def test_fingerprint_changes_with_the_scenario() -> None:
    prints = {
        extract(load_model(running_sum()), scenario=f"chat-3-{n}").fingerprint() for n in (2, 3)
    }
    assert len(prints) == 2


def test_analytic_costs_are_those_of_every_inference() -> None:
    graph, devices = gpt_graph(scenario="chat-6-1"), PRESETS["cpu+dgpu"]
    table = analytic(graph, devices)
    prefill, first, last = (phase for _, phase in graph.phases)
    by_hand = operator_times(prefill, devices[1]) + operator_times(first, devices[1])
    np.testing.assert_allclose(table.operator_ms[:, 1], by_hand)
    assert last.fingerprint() == first.fingerprint()
    stateless = analytic(prefill, devices)
    np.testing.assert_allclose(table.link_ms, 2 * stateless.link_ms)


@pytest.mark.parametrize("name", ["chat-0-4", "chat-4-0", "talk", "chat-4", "chat-4-4-4", ""])
def test_scenario_without_lengths_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="chat"):
        Conversation.parse(name)


def test_scenario_has_a_prefill_and_then_single_tokens() -> None:
    steps = Conversation.parse("chat-6-2").steps()
    assert [(step.past, step.new) for step in steps] == [(0, 6), (6, 1), (7, 1)]


def test_model_without_state_refuses_a_scenario(built: Callable[[str], ov.Model]) -> None:
    with pytest.raises(ValueError, match="keeps no state"):
        extract(built("tiny"), scenario="chat")


def test_bound_number_of_tokens_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"leave the number of tokens .* dynamic"):
        extract(load_model("gpt", shapes={"input_ids": [1, 6]}), scenario="chat-6-4")


@pytest.mark.parametrize(
    ("declared", "sizes"),
    [("[1,0..64]", [1, 64]), ("[1,?]", [1, 10]), ("[1,0..8]", [1, 10]), ("...", [1, 10])],
)
def test_bounded_state_holds_as_much_as_its_bound(declared: str, sizes: list[int]) -> None:
    assert bound(ov.PartialShape(declared), [1, 10]) == sizes


def test_bound_of_a_state_counts_as_memory() -> None:
    x = ops.parameter([1, -1], np.float32, name="x")
    past = ops.read_value(np.zeros((1, 0), np.float32), "past", np.float32,
                          ov.PartialShape("[1,0..64]"), name="past")  # fmt: skip
    whole = ops.concat([past, x], 1, name="whole")
    model = ov.Model([ops.result(ops.relu(whole, name="out"))], [ops.assign(whole, "past")], [x])
    graph = extract(load_model(model), "raw", "chat-5-3")
    held = dict(zip(graph.types, graph.weight_bytes.tolist(), strict=True))
    assert held["ReadValue"] == 64 * 4
    assert graph.state_bytes.sum() == 64 * 4
