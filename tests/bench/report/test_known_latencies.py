"""What the latencies of a problem are compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from placement_gym.bench.report.known_latencies import find_known_latencies
from placement_gym.bench.run.agent_run import run_agent
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.environment import BenchEnv


@pytest.mark.parametrize("weight_share", [1.0, 0.9])
def test_a_device_that_does_not_hold_the_model_is_no_best_single_device(
    weight_share: float, tmp_path: Path
) -> None:
    devices = [{"name": name, "weight_share": weight_share} for name in ("CPU", "GPU")]
    kwargs = {"model": "tiny", "devices": devices}
    bench_env = BenchEnv.make("DevicePlacementSim-v0", kwargs, tmp_path)
    row, _ = run_agent(bench_env, AgentSpec("random"), seed=0, budget=20)
    known = find_known_latencies(bench_env, [row.to_json() | {"problem": "toy"}])
    base = bench_env.base
    fastest_ms = base.backend.evaluate(base.problem.single(0)).reference_ms
    fastest_ms /= base.singles.fastest().speedup
    assert known.best_single_ms == (pytest.approx(fastest_ms) if weight_share == 1.0 else None)
