"""Equal budgets, finalists, rows and reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest

import placement_gym
from placement_gym.backends import Measurement
from placement_gym.bench import report, resolve, results
from placement_gym.bench.arena import Arena
from placement_gym.bench.budget import BudgetedBackend, BudgetReached, Seen
from placement_gym.bench.finalists import Finalist, fastest
from placement_gym.bench.resolve import AgentSpec, UnknownAgentError
from placement_gym.bench.run import run_agent
from placement_gym.env import placement_env
from placement_gym.models import load

SIM = "DevicePlacementSim-v0"


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return Arena.make(SIM, {"model": "tiny"}, tmp_path)


def measurement(speedup: float, noise: float = 0.0) -> Measurement:
    return Measurement(latency_ms=1.0, reference_ms=speedup, noise=noise)


class Greedy:
    """Evaluates for ever."""

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        self.env = env

    def learn(self, total_timesteps: int) -> None:
        self.env.action_space.seed(0)
        while True:
            self.env.reset()
            self.env.step(self.env.action_space.sample())

    def predict(self, observation: Any, *_: Any, **__: Any) -> tuple[Any, None]:
        return np.zeros(observation["placement"].shape, dtype=np.int64), None


def test_an_agent_that_never_stops_is_stopped_at_its_budget(arena: Arena) -> None:
    row, placement = run_agent(arena, AgentSpec.of(Greedy), seed=0, budget=9)
    assert row.evaluations == 9
    assert placement is not None


def test_repeated_placements_count(arena: Arena) -> None:
    backend = BudgetedBackend(arena.base.backend, budget=2)
    assignment = arena.base.problem.single(0)
    backend.evaluate(assignment)
    backend.evaluate(assignment)
    with pytest.raises(BudgetReached):
        backend.evaluate(assignment)


def test_per_unit_steps_count(tmp_path: Path) -> None:
    arena = Arena.make("DevicePlacementPerUnitSim-v0", {"model": "tiny"}, tmp_path)
    row, _ = run_agent(arena, AgentSpec("random"), seed=0, budget=10)
    assert row.evaluations == 10


def test_the_environment_gets_its_backend_back(arena: Arena) -> None:
    before = arena.base.backend
    run_agent(arena, AgentSpec("random"), seed=0, budget=3)
    assert arena.base.backend is before


def test_the_best_placements_are_distinct_feasible_and_sorted(arena: Arena) -> None:
    backend = BudgetedBackend(arena.base.backend, budget=10)
    problem = arena.base.problem
    slow, fast = problem.single(0), problem.single(1)
    for assignment in (slow, fast, fast, slow):
        backend.evaluate(assignment)
    backend.history.append(Seen(np.ones(0), 9.0, "broken"))
    best = backend.best(3)
    assert [a.tolist() for a in best] == [fast.tolist(), slow.tolist()]


def test_the_curve_holds_improvements_only(arena: Arena) -> None:
    backend = BudgetedBackend(arena.base.backend, budget=10)
    for device in (0, 0, 1, 0):
        backend.evaluate(arena.base.problem.single(device))
    assert [point[0] for point in backend.curve] == [1, 3]


def test_an_agent_without_learn_is_judged_by_its_one_placement(tmp_path: Path) -> None:
    arena = Arena.make("DevicePlacementPerUnitSim-v0", {"model": "tiny"}, tmp_path)
    row, placement = run_agent(
        arena, AgentSpec("single-device", {"device": "GPU"}), seed=0, budget=20
    )
    assert placement is not None
    assert set(placement.units.values()) == {"GPU"}
    assert row.speedup_vs_best_single == 1.0
    assert row.beats_best_single == "no"


def test_simulated_rows_replay_exactly(arena: Arena) -> None:
    row, placement = run_agent(arena, AgentSpec("window"), seed=0, budget=10)
    assert placement is not None
    again = arena.base.backend.evaluate(placement.assignment(arena.base.problem))
    assert row.latency_ms == again.latency_ms
    assert row.greedy_latency_ms == again.latency_ms


def test_an_agent_that_does_not_fit_the_environment_is_an_error_row(arena: Arena) -> None:
    row, placement = run_agent(arena, AgentSpec("openvino-auto"), seed=0, budget=3)
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


def test_the_best_single_device_does_not_beat_itself(arena: Arena) -> None:
    finalist = fastest(arena, [arena.base.problem.single(1)])
    assert finalist.speedup_vs_best_single == 1.0
    assert finalist.speedup == pytest.approx(arena.base.singles.fastest().speedup)
    assert finalist.beats_best_single == "no"


def test_any_placement_wins_where_no_single_device_holds_the_model(tmp_path: Path) -> None:
    devices = [{"name": name, "weight_share": 0.9} for name in ("CPU", "GPU")]
    arena = Arena.make(SIM, {"model": "tiny", "devices": devices}, tmp_path)
    row, _ = run_agent(arena, AgentSpec("random"), seed=0, budget=20)
    assert row.beats_best_single == "yes"
    assert row.speedup_vs_best_single == pytest.approx(10 * row.speedup)


def test_measured_finalists_come_from_a_new_process(tmp_path: Path) -> None:
    kwargs = {"model": "tiny", "devices": "cpu-testbed", "repeats": 2, "warmup": 0}
    arena = Arena.make("DevicePlacement-v0", kwargs, tmp_path)
    row, placement = run_agent(arena, AgentSpec("window"), seed=0, budget=2)
    assert placement is not None
    assert row.error == ""
    assert row.n_submodels == row.n_submodels_expected
    assert row.noise > 0


def test_a_failing_new_process_is_an_error_row(tmp_path: Path) -> None:
    arena = Arena.make("DevicePlacement-v0", {"model": "tiny", "devices": "cpu-testbed"}, tmp_path)
    broken = replace(arena, env_kwargs={**arena.env_kwargs, "model": "gone.xml"})
    row, placement = run_agent(broken, AgentSpec("single-device"), seed=0, budget=2)
    assert placement is None
    assert "gone.xml" in row.error


def test_agents_come_from_names_mappings_modules_factories_and_objects() -> None:
    assert AgentSpec.of("random").resolve() is resolve.resolve("random")
    assert AgentSpec.of({"name": "single-device", "kwargs": {"device": "CPU"}}).label == (
        "single-device CPU"
    )
    assert AgentSpec.of("agents.static:window").resolve() is resolve.resolve("window")
    assert AgentSpec.of(Greedy).resolve() is Greedy
    built = Greedy(None, 0)  # type: ignore[arg-type]
    assert AgentSpec.of(built).make(None, 0) is built


@pytest.mark.parametrize("name", ["nobody", "no.such.module:make", "agents.static:nobody"])
def test_unknown_agents_are_refused_before_anything_runs(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownAgentError, match=r"nobody|no\.such\.module"):
        placement_gym.compare("tiny", [name], SIM, out=tmp_path, quiet=True)
    assert not (tmp_path / "results.jsonl").exists()


def test_an_agent_without_predict_is_refused() -> None:
    with pytest.raises(TypeError, match="predict"):
        AgentSpec.of(lambda env, seed: object()).make(None, 0)


def test_a_mapping_with_other_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="kwargs"):
        AgentSpec.of({"name": "random", "seed": 1})


def test_compare_leaves_files_that_people_can_open(tmp_path: Path) -> None:
    document = placement_gym.compare("tiny", None, SIM, budget=10, out=tmp_path, quiet=True)
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert rows == document["rows"]
    assert {row["label"] for row in rows} >= {"single-device CPU", "single-device GPU", "random"}
    assert (tmp_path / "comparison.png").stat().st_size > 10_000
    assert "window" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "tiny-window-seed0.png").exists()
    saved = placement_gym.Placement.load(tmp_path / "tiny-window-seed0.json")
    window = next(row for row in rows if row["agent"] == "window")
    assert window["placement"] == saved.units
    json.dumps(document, allow_nan=False)


def test_seeds_multiply_agents_but_not_single_devices(tmp_path: Path) -> None:
    document = placement_gym.compare(
        "tiny", ["random"], SIM, budget=2, seeds=(0, 1), out=tmp_path, quiet=True
    )
    assert [(row["agent"], row["seed"]) for row in document["rows"]] == [
        ("single-device", 0),
        ("single-device", 0),
        ("random", 0),
        ("random", 1),
    ]


def test_infeasible_single_devices_are_listed_not_hidden(tmp_path: Path) -> None:
    devices = [{"name": "CPU"}, {"name": "GPU", "weight_share": 0.5}]
    document = placement_gym.compare("tiny", [], SIM, devices, budget=2, out=tmp_path, quiet=True)
    cpu, gpu = document["rows"]
    assert gpu["latency_ms"] is None
    assert "GPU holds" in gpu["error"]
    assert gpu["error"] in (tmp_path / "table.md").read_text()
    assert document["best_single_ms"] == cpu["latency_ms"]
    assert document["best_single_unlimited_ms"] < cpu["latency_ms"]


def test_a_model_in_memory_is_saved_for_the_new_process(tmp_path: Path) -> None:
    arena = Arena.make(SIM, {"model": load("tiny")}, tmp_path)
    assert arena.env_kwargs["model"] == str(tmp_path / "tiny.xml")
    json.dumps(arena.env_kwargs)


def test_an_interrupt_keeps_the_finished_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupting(Greedy):
        def learn(self, total_timesteps: int) -> None:
            raise KeyboardInterrupt

    document = placement_gym.compare(
        "tiny", ["random", Interrupting], SIM, budget=2, out=tmp_path, quiet=True
    )
    assert document["interrupted"]
    assert [row["agent"] for row in document["rows"]][-1] == "random"
    assert (tmp_path / "table.md").exists()


def test_a_test_bed_and_mixed_precision_are_said_in_every_report(tmp_path: Path) -> None:
    arena = Arena.make(
        "DevicePlacement-v0", {"model": "tiny", "devices": "cpu-testbed-bf16"}, tmp_path
    )
    from placement_gym.bench.compare import notes

    assert [note.split(":")[0] for note in notes(arena)] == ["test bed", "mixed precision"]


def test_a_report_names_the_winner_or_says_that_there_is_none(tmp_path: Path) -> None:
    document = placement_gym.compare("tiny", [], SIM, budget=2, out=tmp_path, quiet=True)
    assert report.conclusion(document) == "No split was measured."
    split = {"label": "window", "placement": {"a": "CPU", "b": "GPU"}}
    for verdict, speedup, words in (
        ("no", 0.5, "No split beats the best single device."),
        ("within noise", 1.01, "window equals it within noise"),
        ("yes", 1.25, "window beats the best single device by 25.0 %."),
    ):
        row = {**split, "beats_best_single": verdict, "speedup_vs_best_single": speedup}
        assert words in report.conclusion({**document, "rows": [*document["rows"], row]})
        unheld = {**document, "rows": [row], "best_single_ms": None}
        assert "No single device holds the model" in report.conclusion(unheld)
    assert report.conclusion({**document, "interrupted": True}).startswith("Interrupted.")


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
    arena = Arena.make(env_id, {"model": "tiny", **kwargs}, tmp_path)
    row, _ = run_agent(arena, AgentSpec("single-device", {"device": "CPU"}), seed=0, budget=2)
    assert row.error == ""


def test_a_placement_beyond_the_budget_is_no_finalist(arena: Arena) -> None:
    class Late(Greedy):
        def learn(self, total_timesteps: int) -> None:
            self.env.reset()
            self.env.step(np.zeros(7, dtype=np.int64))

        def predict(self, observation: Any, *_: Any, **__: Any) -> tuple[Any, None]:
            return np.ones(observation["placement"].shape, dtype=np.int64), None

    row, placement = run_agent(arena, AgentSpec.of(Late), seed=0, budget=1)
    assert placement is not None
    assert set(placement.units.values()) == {"CPU"}
    assert row.greedy_latency_ms < row.latency_ms


def test_a_ready_object_only_predicts(arena: Arena) -> None:
    row, _ = run_agent(arena, AgentSpec.of(Greedy(arena.env, 0)), seed=0, budget=5)
    assert row.evaluations == 1


def test_two_agents_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="random"):
        placement_gym.compare("tiny", ["random", "random"], SIM, out=tmp_path, quiet=True)


def test_a_torn_last_line_costs_no_other_row(arena: Arena, tmp_path: Path) -> None:
    row, _ = run_agent(arena, AgentSpec("random"), seed=0, budget=2)
    path = tmp_path / "results.jsonl"
    results.append(path, row)
    whole = path.read_text()
    path.write_text(whole + whole[:40])
    results.append(path, row)
    assert path.read_text() == whole * 2


def test_values_that_are_not_finite_become_null() -> None:
    assert results.plain({"a": [float("nan"), 1.0], "b": float("inf")}) == {
        "a": [None, 1.0],
        "b": None,
    }


def test_a_saved_placement_is_measured_again_without_the_environment(tmp_path: Path) -> None:
    from placement_gym.bench.evaluate import evaluate_placement

    env = gym.make("placement_gym:DevicePlacement-v0", model="tiny", devices="cpu-testbed")
    base = placement_env(env)
    assignment = np.arange(base.problem.n_units) % 2
    base.evaluate(assignment)
    base.placement().save(tmp_path / "placement.json")
    values = evaluate_placement(load("tiny"), tmp_path / "placement.json")
    assert values["n_submodels"] == base.last.n_submodels
    assert values["latency_ms"] > 0
    assert values["beats_best_single"] in ("yes", "no", "within noise")


def test_rows_carry_what_made_them(arena: Arena) -> None:
    row, _ = run_agent(arena, AgentSpec("random"), seed=4, budget=2)
    values = row.to_json()
    assert values["versions"]["openvino"] == ov.__version__.split("-")[0]
    assert values["model_fingerprint"] == arena.base.problem.units.graph.fingerprint()
    assert (values["seed"], values["budget"]) == (4, 2)
