# White-box tests of cli, deployment
"""What devices hold: weights, copies of shared ones, caches; and models that fit no device."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from by_hand import cost_table
from graphs import chain, problem_on
from rich.console import Console
from testbed import build_here, worker_of

from placement_gym.backends.measured import HeteroPartition, set_affinities
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import UserError
from placement_gym.cli.tables import memory_tables
from placement_gym.deployment.candidates import propose_candidates
from placement_gym.deployment.plan_report import (
    check_room,
    count_held,
    describe_fit,
    report_memory,
)
from placement_gym.graph import extract
from placement_gym.hardware import DeviceSpec, resolve_devices
from placement_gym.models import ModelSpec, load_model
from placement_gym.problem import Problem
from placement_gym.problem.costs import analytic

TABLE = 4096 * 256 * 4
"""Bytes of gpt's table of tokens, which the embedding and the head read."""


@cache
def gpt_problem(limits: tuple[float | None, float | None] = (None, None)) -> Problem:
    devices = (DeviceSpec("CPU", weight_share=limits[0]), DeviceSpec("GPU", weight_share=limits[1]))
    return problem_on(extract(load_model("gpt"), "folded", "chat-8-4"), devices)


def test_devices_hold_the_constants_of_the_compiled_model() -> None:
    problem = gpt_problem()
    thirds = np.arange(problem.n_units) * 3 // problem.n_units % 2
    model, graph = load_model("gpt"), problem.units.graph
    partition = HeteroPartition.from_assignment(
        graph, thirds[problem.units.of_operator], problem.devices, alias=False
    )
    set_affinities(model, graph, partition)
    found = dict.fromkeys(problem.device_names, 0)
    for node in model.get_ops():
        if node.get_type_name() == "Constant":
            found[node.get_rt_info()["affinity"].astype(str)] += node.get_byte_size()
    held = problem.memory_bytes(thirds) - count_held(problem, thirds)[1]
    assert held.tolist() == pytest.approx(list(found.values()), abs=1000)  # shapes are folded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "too_small"), [("cpu-testbed-limited", 1), ("cpu-testbed-2-tight", 2)]
)
def test_decoder_decodes_32_tokens_within_the_limits(devices: str, too_small: int) -> None:
    spec = ModelSpec("gpt", "fused", scenario="chat-16-32")
    backend = build_here(spec, resolve_devices(devices, "measured"))
    problem = backend.problem
    assert len(describe_fit(problem)) == too_small
    costs = analytic(problem.units.graph, problem.devices)
    found, _ = propose_candidates(SimulatedBackend(problem, costs), 10.0)
    splits = [
        one.assignment
        for one in found
        if not one.alone and not problem.infeasibility(one.assignment)
    ]
    assert splits
    worker = worker_of(backend)
    split = worker.compile(splits[0])
    held = count_held(problem, splits[0])
    assert (held[0] > 1e6).all()
    assert (held.sum(axis=0) <= problem.limits_bytes).all()
    expected, outputs = worker.reference.inferences.outputs(), split.inferences.outputs()
    assert len(outputs) == 33
    assert max(float(np.abs(a - b).max()) for a, b in zip(outputs, expected, strict=True)) < 1e-5
    backend.close()


def chain_problem(limits: tuple[int | None, int | None] = (None, None)) -> Problem:
    """A chain of four units of 10 bytes."""
    devices = tuple(DeviceSpec(f"device{i}", memory_bytes=limit) for i, limit in enumerate(limits))
    return problem_on(chain(4, weight_bytes=10), devices)


def test_a_cache_counts_apart_from_weights() -> None:
    gpt = gpt_problem()
    weights, state = count_held(gpt, gpt.single(1))
    layers, heads, width, tokens = 4, 4, 64, 8 + 4
    assert state.tolist() == [0, layers * 2 * heads * width * tokens * 4]
    assert weights[0] == 0
    assert weights.sum() + state.sum() == gpt.unit_bytes.sum()


def test_a_weight_that_two_operators_read_counts_for_both() -> None:
    gpt = gpt_problem()
    raw = extract(load_model("gpt"), "raw", "chat-8-4").weight_bytes.sum()
    assert gpt.unit_bytes.sum() - raw == pytest.approx(TABLE, abs=200)
    halves = (np.arange(gpt.n_units) >= gpt.n_units // 2).astype(np.int64)
    held = count_held(gpt, halves)
    assert held[0].min() > TABLE
    assert held.sum(axis=0).tolist() == gpt.memory_bytes(halves).tolist()


def test_what_fits_no_device_is_said_with_its_bytes() -> None:
    said = describe_fit(gpt_problem((0.6, None)))
    assert len(said) == 1
    assert said[0].startswith("CPU cannot hold the model: it needs 22.2 MB")
    assert "weights 22.1 MB, cache 98.3 kB" in said[0]
    assert " MB more than the limit of " in said[0]


def test_devices_too_small_together_are_refused() -> None:
    with pytest.raises(UserError, match=r"room for 17\.7 MB together: 4\.4 MB too little"):
        check_room(gpt_problem((0.4, 0.4)))
    with pytest.raises(UserError, match=r"unit .* needs .*more than fits on any device"):
        check_room(replace(chain_problem((25, 25)), operator_bytes=np.array([30, 1, 1, 1])))
    check_room(gpt_problem((0.6, 0.6)))


def test_fills_are_candidates_where_memory_is_limited() -> None:
    problem = chain_problem((25, 25))
    costs = cost_table(problem.units.graph, [[5.0, 1.0]] * 4, [1.0] * 3)
    found, _ = propose_candidates(SimulatedBackend(problem, costs), 5.0)
    labels = {name for candidate in found for name in (candidate.label, *candidate.also)}
    assert {"fill-in-order", "PIPELINE_PARALLEL"} <= labels
    free = SimulatedBackend(chain_problem(), costs)
    found, _ = propose_candidates(free, 5.0)
    assert not any("fill" in candidate.label for candidate in found)


def printed(document: dict[str, Any]) -> str:
    text = io.StringIO()
    console = Console(width=120, file=text)
    for table in memory_tables(document):
        console.print(table)
    return " ".join(text.getvalue().split())


def test_bytes_are_printed_only_where_memory_is_limited() -> None:
    problem = chain_problem((None, 30))
    placements = {"PIPELINE_PARALLEL": problem.single(0), "milp": np.array([0, 1, 1, 0])}
    memory = report_memory(problem, placements)
    assert memory["placements"]["milp"] == [
        {"weights": 20, "state": 0}, {"weights": 20, "state": 0},
    ]  # fmt: skip
    assert memory["devices"][0] == {
        "name": "device0",
        "limit_bytes": None,
        "reported_bytes": None,
        "pool": "",
    }
    document = {"plan": "milp", "memory": memory}
    assert "device limit PIPELINE_PARALLEL milp" in printed(document)
    free = chain_problem()
    assert not printed({"plan": "milp", "memory": report_memory(free, placements)})
