# White-box tests of bench.report
"""Repair in runs of agents: who gets it, and what rows and tables say about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Greedy

import placement_gym
from placement_gym.bench.report import format_markdown
from placement_gym.bench.report.wording import format_infeasible
from placement_gym.bench.run import AgentSpec, BenchEnv, Row, run_agent

SIM = "DevicePlacementSim-v0"
LIMITED = ["CPU", {"name": "GPU", "weight_share": 0.3}]


def limited(**kwargs: Any) -> BenchEnv:
    return BenchEnv.make(SIM, {"model": "resnet", "devices": LIMITED, **kwargs})


def run(bench_env: BenchEnv, agent: Any, budget: int = 30) -> Row:
    row, _ = run_agent(bench_env, AgentSpec.from_value(agent), seed=0, budget=budget)
    return row


@pytest.mark.parametrize("name", ["random", "random-blocks", "hill-climb"])
def test_agents_are_repaired_where_limits_are_hard(name: str) -> None:
    bench_env = limited()
    repaired = run(bench_env, name)
    unrepaired = run(bench_env, {"name": name, "kwargs": {"repair": False}})
    assert (repaired.evaluations, repaired.infeasible) == (30, 0)
    assert unrepaired.repaired == 0
    assert unrepaired.infeasible is not None
    assert unrepaired.infeasible > 0
    if name.startswith("random"):
        assert repaired.repaired == unrepaired.infeasible  # the same proposals
    assert repaired.latency_ms is not None
    assert unrepaired.latency_ms is None or repaired.latency_ms <= unrepaired.latency_ms
    assert (repaired.label, unrepaired.label) == (name, f"{name}, no repair")
    assert unrepaired.kwargs == {"repair": False}


def test_the_environment_is_as_it_was_afterwards() -> None:
    bench_env = limited()
    before = bench_env.base.backend, bench_env.base.on_repair
    run(bench_env, "random")
    assert not bench_env.base.repair
    assert (bench_env.base.backend, bench_env.base.on_repair) == before


def test_a_fixed_choice_is_not_changed() -> None:
    bench_env = limited()
    row = run(bench_env, {"name": "single-device", "kwargs": {"device": "GPU"}})
    assert "GPU would hold" in row.error
    given = {"name": "single-device", "kwargs": {"device": "GPU", "repair": True}}
    row = run(bench_env, given)
    assert row.error == ""
    assert row.label == "single-device GPU, repaired"
    assert (row.evaluations, row.infeasible, row.repaired) == (1, 0, 1)


@pytest.mark.parametrize(
    "kwargs", [{"repair": False}, {"schedule": "placeto"}, {"schedule": {"memory": "off"}}]
)
def test_the_environment_decides_where_the_agent_does_not(kwargs: dict[str, Any]) -> None:
    assert run(limited(**kwargs), "random").repaired == 0


def test_a_batch_beyond_the_budget_counts_what_was_evaluated() -> None:
    class Hasty(Greedy):
        def learn(self, total_timesteps: int) -> None:
            self.env.unwrapped.evaluate_batch(np.ones((8, 37), dtype=np.int64))

    row = run(limited(), Hasty, budget=5)
    # the fifth is the greedy placement, which fits
    assert (row.evaluations, row.repaired, row.infeasible) == (5, 4, 0)


def test_a_repair_option_must_be_a_flag() -> None:
    with pytest.raises(ValueError, match="repair must be True or False"):
        _ = AgentSpec("random", {"repair": "no"}).label


def test_tables_show_the_share_of_infeasible_evaluations(tmp_path: Path) -> None:
    agents = ["random-blocks", {"name": "random-blocks", "kwargs": {"repair": False}}]
    document = placement_gym.compare(
        "resnet", agents, SIM, LIMITED, budget=20, out=tmp_path, quiet=True
    )
    with_repair, without = document["rows"][-2:]
    text = format_markdown(document)
    assert "infeas." in text
    assert f"| 0% ({with_repair['repaired'] / 20:.0%}) |" in text
    assert f"| {without['infeasible'] / 20:.0%} |" in text


def test_repaired_evaluations_are_in_brackets() -> None:
    row = {"evaluations": 10, "infeasible": 1, "repaired": 0}
    assert format_infeasible([{**row, "evaluations": 0}]) == "-"
    assert format_infeasible([row]) == "10%"
    assert format_infeasible([row, {**row, "infeasible": 0, "repaired": 4}]) == "5% (20%)"
