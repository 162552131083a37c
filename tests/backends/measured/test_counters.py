"""Counters of a device, led back to the operators of a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from by_hand import made_graph

from placement_gym.backends.measured.counters import describe_unexplained, give_to_operators
from placement_gym.graph.operators import OpGraph


def convolutions() -> OpGraph:
    """Two convolutions, of which the second has three times the FLOPs, and their end."""
    graph = made_graph(3, [(0, [1]), (1, [2])])
    names = ("conv0", "conv1", "fc")
    return replace(
        graph,
        names=names,
        members=(("conv0", "bias0"), ("conv1",), ("fc",)),
        flops=np.array([100.0, 300.0, 0.0]),
    )


@pytest.mark.parametrize(
    ("primitive", "fused", "expected"),
    [
        ("conv1", [], [0, 1, 0]),
        ("any", ["conv0", "conv1"], [0, 1, 0]),
        ("bias0", [], [1, 0, 0]),
        ("reorder_input_convolution:conv1", [], [0, 1, 0]),
        ("fc.0", [], [0, 0, 1]),
        ("fc/transpose_b", [], [0, 0, 1]),
        ("Result_35", ["fc.0"], [0, 0, 1]),
    ],
)
def test_a_counter_goes_to_the_operator_it_is_named_after(
    primitive: str, fused: list[str], expected: list[float]
) -> None:
    times, unowned_ms = give_to_operators(convolutions(), {primitive: 1.0}, {primitive: fused})
    assert (times.tolist(), unowned_ms) == (expected, 0.0)


def test_a_counter_of_no_operator_is_spread_by_work_and_said() -> None:
    counted = {"conv0": 1.0, "a_wrong_name:of_conv1": 8.0}
    times, unowned_ms = give_to_operators(convolutions(), counted, {})
    assert times.tolist() == [3.0, 6.0, 0.0]
    assert unowned_ms == 8.0
    assert "89% of the counted 9 ms belong to no operator" in describe_unexplained(9.0, 8.0, 9.0)


def test_counters_that_do_not_explain_the_latency_are_said() -> None:
    assert describe_unexplained(9.0, 0.1, 10.0) == ""
    assert "add up to 5 ms where an inference takes 10 ms" in describe_unexplained(5.0, 0.0, 10.0)
