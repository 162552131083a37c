"""Runs of agents: equal budgets, finalists, verdicts, and agents by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Greedy

import placement_gym
from placement_gym.backends.protocol import Measurement
from placement_gym.bench.run.agent_run import run_agent
from placement_gym.bench.run.agents import AgentSpec, load_agent
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached, Seen
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.finalists import Finalist, fastest
from placement_gym.models import load

SIM = "DevicePlacementSim-v0"


def measurement(speedup: float, noise: float = 0.0) -> Measurement:
    return Measurement(latency_ms=1.0, reference_ms=speedup, noise=noise)


def test_an_agent_that_never_stops_is_stopped_at_its_budget(bench_env: BenchEnv) -> None:
    row, placement = run_agent(bench_env, AgentSpec.of(Greedy), seed=0, budget=9)
    assert row.evaluations == 9
    assert placement is not None


def test_repeated_placements_count(bench_env: BenchEnv) -> None:
    backend = BudgetedBackend(bench_env.base.backend, budget=2)
    assignment = bench_env.base.problem.single(0)
    backend.evaluate(assignment)
    backend.evaluate(assignment)
    with pytest.raises(BudgetReached):
        backend.evaluate(assignment)


def test_a_batch_is_cut_at_the_budget_and_what_was_evaluated_is_kept(bench_env: BenchEnv) -> None:
    backend = BudgetedBackend(bench_env.base.backend, budget=3)
    problem = bench_env.base.problem
    batch = np.stack([problem.single(device) for device in (0, 1, 0, 1, 1)])
    with pytest.raises(BudgetReached):
        backend.evaluate_batch(batch)
    assert backend.evaluations == 3
    assert backend.best(1)[0].tolist() == problem.single(1).tolist()


def test_per_unit_steps_count(tmp_path: Path) -> None:
    bench_env = BenchEnv.make("DevicePlacementPerUnitSim-v0", {"model": "tiny"}, tmp_path)
    row, _ = run_agent(bench_env, AgentSpec("random"), seed=0, budget=10)
    assert row.evaluations == 10


def test_the_environment_gets_its_backend_back(bench_env: BenchEnv) -> None:
    before = bench_env.base.backend
    run_agent(bench_env, AgentSpec("random"), seed=0, budget=3)
    assert bench_env.base.backend is before


def test_the_best_placements_are_distinct_feasible_and_sorted(bench_env: BenchEnv) -> None:
    backend = BudgetedBackend(bench_env.base.backend, budget=10)
    problem = bench_env.base.problem
    slow, fast = problem.single(0), problem.single(1)
    for assignment in (slow, fast, fast, slow):
        backend.evaluate(assignment)
    backend.history.append(Seen(np.ones(0), 9.0, "broken"))
    best = backend.best(3)
    assert [a.tolist() for a in best] == [fast.tolist(), slow.tolist()]


def test_the_curve_holds_improvements_only(bench_env: BenchEnv) -> None:
    backend = BudgetedBackend(bench_env.base.backend, budget=10)
    for device in (0, 0, 1, 0):
        backend.evaluate(bench_env.base.problem.single(device))
    assert [point[0] for point in backend.curve] == [1, 3]


def test_an_agent_without_learn_is_judged_by_its_one_placement(tmp_path: Path) -> None:
    bench_env = BenchEnv.make("DevicePlacementPerUnitSim-v0", {"model": "tiny"}, tmp_path)
    row, placement = run_agent(
        bench_env, AgentSpec("single-device", {"device": "GPU"}), seed=0, budget=20
    )
    assert placement is not None
    assert set(placement.units.values()) == {"GPU"}
    assert row.speedup_vs_best_single == 1.0
    assert row.beats_best_single == "no"


def test_simulated_rows_replay_exactly(bench_env: BenchEnv) -> None:
    row, placement = run_agent(bench_env, AgentSpec("window"), seed=0, budget=10)
    assert placement is not None
    again = bench_env.base.backend.evaluate(placement.assignment(bench_env.base.problem))
    assert row.latency_ms == again.latency_ms
    assert row.greedy_latency_ms == again.latency_ms


def test_an_agent_that_does_not_fit_the_environment_is_an_error_row(bench_env: BenchEnv) -> None:
    row, placement = run_agent(bench_env, AgentSpec("openvino-auto"), seed=0, budget=3)
    assert placement is None
    assert "measured" in row.error
    assert row.latency_ms is None


@pytest.mark.parametrize(
    ("speedup", "noise", "verdict"),
    [
        (1.1, 0.02, "yes"),
        (0.9, 0.02, "no"),
        (1.01, 0.02, "within noise"),
        (0.99, 0.02, "within noise"),
    ],
)
def test_a_verdict_respects_the_noise(speedup: float, noise: float, verdict: str) -> None:
    finalist = Finalist(np.zeros(1, np.int64), measurement(speedup, noise), speedup=3.0)
    assert finalist.beats_best_single == verdict


def test_the_best_single_device_does_not_beat_itself(bench_env: BenchEnv) -> None:
    finalist = fastest(bench_env, [bench_env.base.problem.single(1)])
    assert finalist.speedup_vs_best_single == 1.0
    assert finalist.speedup == pytest.approx(bench_env.base.singles.fastest().speedup)
    assert finalist.beats_best_single == "no"


def test_any_placement_wins_where_no_single_device_holds_the_model(tmp_path: Path) -> None:
    devices = [{"name": name, "weight_share": 0.9} for name in ("CPU", "GPU")]
    bench_env = BenchEnv.make(SIM, {"model": "tiny", "devices": devices}, tmp_path)
    row, _ = run_agent(bench_env, AgentSpec("random"), seed=0, budget=20)
    assert row.beats_best_single == "yes"
    assert row.speedup_vs_best_single == pytest.approx(10 * row.speedup)


def test_measured_finalists_come_from_a_new_process(tmp_path: Path) -> None:
    kwargs = {"model": "tiny", "devices": "cpu-testbed", "repeats": 2, "warmup": 0}
    bench_env = BenchEnv.make("DevicePlacement-v0", kwargs, tmp_path)
    row, placement = run_agent(bench_env, AgentSpec("window"), seed=0, budget=2)
    assert placement is not None
    assert row.error == ""
    assert row.n_submodels == row.n_submodels_expected
    assert row.noise > 0


def test_a_failing_new_process_is_an_error_row(tmp_path: Path) -> None:
    bench_env = BenchEnv.make(
        "DevicePlacement-v0", {"model": "tiny", "devices": "cpu-testbed"}, tmp_path
    )
    broken = replace(bench_env, env_kwargs={**bench_env.env_kwargs, "model": "gone.xml"})
    row, placement = run_agent(broken, AgentSpec("single-device"), seed=0, budget=2)
    assert placement is None
    assert "gone.xml" in row.error


def test_agents_come_from_names_mappings_modules_factories_and_objects() -> None:
    assert AgentSpec.of("random").load() is load_agent("random")
    assert AgentSpec.of({"name": "single-device", "kwargs": {"device": "CPU"}}).label == (
        "single-device CPU"
    )
    assert AgentSpec.of("agents.static:window").load() is load_agent("window")
    assert AgentSpec.of(Greedy).load() is Greedy
    built = Greedy(None, 0)  # type: ignore[arg-type]
    assert AgentSpec.of(built).make(None, 0) is built


def test_an_agent_without_predict_is_refused() -> None:
    with pytest.raises(TypeError, match="predict"):
        AgentSpec.of(lambda env, seed: object()).make(None, 0)


def test_a_mapping_with_other_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="kwargs"):
        AgentSpec.of({"name": "random", "seed": 1})


def test_a_model_in_memory_is_saved_for_the_new_process(tmp_path: Path) -> None:
    bench_env = BenchEnv.make(SIM, {"model": load("tiny")}, tmp_path)
    assert bench_env.env_kwargs["model"] == str(tmp_path / "tiny.xml")
    json.dumps(bench_env.env_kwargs)


class Broken(Greedy):
    """Evaluates twice, then fails."""

    def learn(self, total_timesteps: int) -> None:
        for _ in range(2):
            self.env.reset()
            self.env.step(self.env.action_space.sample())
        raise KeyError("a mistake")


def test_an_agents_mistake_ends_its_own_run_only(tmp_path: Path) -> None:
    document = placement_gym.compare(
        "tiny", [Broken, "random"], SIM, budget=5, out=tmp_path, quiet=True
    )
    broken, random = document["rows"][-2:]
    assert "a mistake" in broken["error"]
    assert broken["evaluations"] == 2
    assert random["latency_ms"] is not None


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [("DevicePlacementPerUnitSim-v0", {"start": "random"}), (SIM, {"horizon": 50})],
)
def test_the_greedy_episode_is_never_cut_short(
    env_id: str, kwargs: dict[str, Any], tmp_path: Path
) -> None:
    bench_env = BenchEnv.make(env_id, {"model": "tiny", **kwargs}, tmp_path)
    row, _ = run_agent(bench_env, AgentSpec("single-device", {"device": "CPU"}), seed=0, budget=2)
    assert row.error == ""


def test_a_placement_beyond_the_budget_is_no_finalist(bench_env: BenchEnv) -> None:
    class Late(Greedy):
        def learn(self, total_timesteps: int) -> None:
            self.env.reset()
            self.env.step(np.zeros(7, dtype=np.int64))

        def predict(self, observation: Any, *_: Any, **__: Any) -> tuple[Any, None]:
            return np.ones(observation["placement"].shape, dtype=np.int64), None

    row, placement = run_agent(bench_env, AgentSpec.of(Late), seed=0, budget=1)
    assert placement is not None
    assert set(placement.units.values()) == {"CPU"}
    assert row.greedy_latency_ms < row.latency_ms


def test_a_ready_object_only_predicts(bench_env: BenchEnv) -> None:
    row, _ = run_agent(bench_env, AgentSpec.of(Greedy(bench_env.env, 0)), seed=0, budget=5)
    assert row.evaluations == 1
