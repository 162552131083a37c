"""What ``gym.make("DevicePlacementSim-v0", ...)`` makes of its arguments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import CPU_GPU, assignment, diamond_costs, diamond_problem, placed
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3
from workload_files import edge, node, write_workload

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.envs import DevicePlacementEnv, PerUnitEnv
from placement_gym.hardware import DeviceSpec
from placement_gym.problem.costs import PRESETS, CostTable, Semantics, analytic, parse_schedule
from placement_gym.schedules import Simulator
from placement_gym.solvers import minimum_cut

ENV_ID = "DevicePlacementSim-v0"
MODEL = "synthetic-layered-40"
LIMITED = [{"name": "CPU"}, {"name": "GPU", "weight_share": 0.3}]


def made(**kwargs: Any) -> Any:
    return gym.make(ENV_ID, **({"model": MODEL} | kwargs)).unwrapped


def draws(env: Any, n: int) -> list[np.ndarray[Any, Any]]:
    env.action_space.seed(1)
    return [env.action_space.sample() for _ in range(n)]


def latencies(env: Any, n: int = 5, seed: int | None = 0) -> list[float]:
    """Of the same random placements, one episode each; the seed is given once."""
    env.reset(seed=seed)
    return [float(env.step(action)[4]["latency_ms"]) for action in draws(env, n)]


@pytest.fixture(params=["synthetic", "workload"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A synthetic graph; and a workload of a fork that joins, with one colour class."""
    if request.param == "synthetic":
        return MODEL
    nodes = [node(i, 5.0, 1.0 + i, size=80.0) for i in range(4)]
    nodes[1]["colorClass"] = nodes[2]["colorClass"] = 1
    edges = [edge(a, b) for a, b in [(0, 1), (0, 2), (1, 3), (2, 3)]]
    return write_workload(tmp_path / "fork.json", nodes, edges)


@pytest.mark.filterwarnings("ignore:.*Box observation space (min|max)imum value is")
@pytest.mark.parametrize("options", [{"schedule": "giph"}, {"noise": 0.1}])
def test_gymnasiums_and_stable_baselines_checks_pass(options: dict[str, Any], model: str) -> None:
    env = made(model=model, **options)
    check_env(env)
    check_env_for_sb3(env, warn=False)


@pytest.mark.parametrize("schedule", PRESETS)
def test_a_schedule_is_the_preset_of_that_name(schedule: str, model: str) -> None:
    env = made(model=model, schedule=schedule)
    simulator = Simulator(env.problem.units, env.cost_table(), PRESETS[schedule])
    for action in draws(env, 5):
        env.reset()
        info = env.step(action)[4]
        if info["feasible"] and PRESETS[schedule].memory_penalty_ms_per_gb is None:
            assert info["latency_ms"] == simulator.latency_ms(action.astype(np.uint8))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({}, Semantics()),
        ({"schedule": "event", "contention": "link"}, Semantics("event", contention="link")),
        ({"schedule": "load"}, Semantics("load")),
        ({"schedule": "calls", "memory": "off"}, Semantics("calls", memory="off")),
        ({"preset": "giph", "order": "priority"}, replace(PRESETS["giph"], order="priority")),
        ({"preset": "placeto", "op_gap_ms": 0.0}, replace(PRESETS["placeto"], op_gap_ms=0.0)),
    ],
)
def test_a_mapping_changes_axes_of_a_preset(schedule: Any, expected: Semantics) -> None:
    assert parse_schedule(schedule, "latency") == expected
    assert made(schedule=schedule).simulated.semantics == expected


def test_throughput_is_the_time_of_the_busiest_device() -> None:
    problem = diamond_problem()
    semantics = parse_schedule("event", "throughput")
    backend = SimulatedBackend(problem, diamond_costs(problem), semantics)
    loads = [backend.evaluate(assignment(a)).latency_ms for a in ([0, 1, 1, 0], [0, 0, 0, 1])]
    assert loads == pytest.approx([0.5 + 2.0 + 3.0 + 0.25 + 0.125, 4.0 + 4.0 + 1.0])
    env = made(objective="throughput")
    assert latencies(env) == latencies(made(schedule="tarnawski-throughput"))


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ({"objective": "energy"}, "one of latency, throughput, not 'energy'"),
        ({"noise": float("nan")}, "noise"),
        ({"costs": "guessed"}, "one of analytic, profiled, a CostTable"),
        ({"schedule": "random"}, "tarnawski-latency"),
        ({"schedule": {"preset": "random"}}, "tarnawski-latency"),
        ({"schedule": {"gap_ms": 1.0}}, "op_gap_ms"),
        ({"schedule": {"schedule": "parallel"}}, "event"),
        ({"schedule": {"transfer": "twice"}}, "one of dest, edge, output"),
        ({"schedule": {"contention": "all"}}, "link, none, source"),
        ({"schedule": {"order": "random"}}, "one of fifo, priority"),
        ({"schedule": {"memory": "swap"}}, "off, outputs, static"),
        ({"schedule": {"memory": "lifetime"}}, "needs another schedule: use 'event' or 'list'"),
        (
            {"schedule": {"preset": "event", "transfer": "output", "contention": "dest"}},
            "contention='source'",
        ),
        ({"schedule": {"op_gap_ms": -1.0}}, "must be a number of at least 0"),
        ({"schedule": {"link_gap_ms": float("nan")}}, "gap"),
        ({"schedule": {"memory_penalty_ms_per_gb": -1.0}}, "must be a number of at least 0"),
        ({"granularity": "layer"}, "colocated, fused, op, not 'layer'"),
        ({"graph": "pruned"}, "folded, raw, not 'pruned'"),
        ({"devices": "cpu+tpu,"}, "nor a preset|distinct"),
    ],
)
def test_a_wrong_value_is_refused_with_the_remedy(
    arguments: dict[str, Any], remedy: str, model: str
) -> None:
    if "costs" in arguments and model != MODEL:
        remedy = "one of published, published-x1000, a CostTable"
    with pytest.raises(ValueError, match=remedy):
        made(**({"model": model} | arguments))


def test_noise_follows_the_seed_of_reset() -> None:
    env = made(noise=0.1)
    first, again, other, further = (latencies(env, seed=seed) for seed in (3, 3, 4, None))
    assert first == again == latencies(made(noise=0.1), seed=3)
    assert all(len(set(of_one)) == 3 for of_one in zip(first, other, further, strict=True))


def test_noise_multiplies_the_latency_and_is_stated_in_the_info() -> None:
    env, exact = made(noise=0.1, horizon=500), made()
    action = draws(env, 1)[0]
    start = env.reset(seed=0)[1]
    assert (start["noise"], start["latency_ms"]) == (0.0, exact.reset()[1]["latency_ms"])
    infos = [env.step(action)[4] for _ in range(500)]
    ratios = np.log([info["latency_ms"] for info in infos]) - np.log(
        exact.step(action)[4]["latency_ms"]
    )
    assert ratios.std() == pytest.approx(0.1, rel=0.1)
    assert abs(ratios.mean()) < 0.02
    assert [info["noise"] for info in infos] == pytest.approx([1.96 * 0.1] * 500)
    assert infos[0]["speedup"] == infos[0]["reference_ms"] / infos[0]["latency_ms"]


def test_single_devices_and_remeasuring_are_exact_under_noise() -> None:
    noisy, exact = made(noise=0.5), made()
    action = draws(noisy, 1)[0].astype(np.int64)
    for key in ("reference_ms", "best_single_ms", "latency_ms"):
        assert noisy.reset(seed=1)[1][key] == exact.reset()[1][key]
    assert noisy.backend.remeasure([action, action * 0]) == exact.backend.remeasure(
        [action, action * 0]
    )
    assert noisy.backend.evaluate(action).latency_ms != exact.backend.evaluate(action).latency_ms


def test_infeasible_placement_costs_ten_references_under_noise() -> None:
    env = made(noise=0.5, devices=LIMITED)
    env.reset(seed=0)
    info = env.step(np.ones(env.problem.n_units, dtype=np.int64))[4]
    assert not info["feasible"]
    assert info["latency_ms"] == pytest.approx(10 * info["reference_ms"])


def test_the_graph_is_left_out_of_observations_on_demand() -> None:
    env = made(observe_graph=False)
    observation, _ = env.reset()
    assert set(observation) == {"node_mask", "placement", "step", "graph_id"}
    assert env.observation_space.contains(observation)
    assert latencies(env) == latencies(made())


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": {"preset": "event", "order": "priority"}, "noise": 0.2},
        {"objective": "throughput", "horizon": 4, "devices": "cpu+2dgpu"},
        {"observe_graph": False, "costs": "analytic", "reward": "improvement"},
    ],
)
def test_a_spec_in_json_reproduces_the_latencies(options: dict[str, Any], model: str) -> None:
    if "costs" in options and model != MODEL:
        options = options | {"costs": "published-x1000"}
    env = gym.make(ENV_ID, model=model, **options)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.spec == env.spec
    assert latencies(again.unwrapped) == latencies(env.unwrapped)


def test_costs_from_a_file_are_those_that_were_saved(model: str, tmp_path: Path) -> None:
    env = made(model=model)
    slower = env.cost_table().scaled(np.full(len(env.problem.devices), 3.0))
    slower.save(tmp_path / "costs.json")
    again = made(model=model, costs=str(tmp_path / "costs.json"))
    assert again.cost_table().fingerprint == slower.fingerprint
    with pytest.raises(ValueError, match="another graph"):
        made(model="tiny", devices=env.problem.devices, costs=tmp_path / "costs.json")


def test_cost_table_is_the_analytic_one_of_the_operators() -> None:
    env = made(devices="cpu+igpu+npu")
    expected = analytic(env.problem.units.graph, env.problem.devices)
    assert env.cost_table().fingerprint == expected.fingerprint
    assert env.cost_table().source == "analytic"


@pytest.mark.slow
def test_profiled_costs_are_times_of_this_machines_devices(tiny_profile: CostTable) -> None:
    env = made(model="tiny", devices="cpu-testbed", costs="profiled")
    costs = env.cost_table()
    assert costs.devices == env.problem.device_names == ("CPU", "CPU_FAST")
    assert costs.fingerprint == tiny_profile.fingerprint
    assert latencies(env) == latencies(env)


@pytest.mark.parametrize("schedule", ["event", "list"])
def test_per_unit_start_times_are_those_of_the_schedule(schedule: str) -> None:
    env = gym.make("DevicePlacementPerUnitSim-v0", model=MODEL, schedule=schedule, granularity="op")
    base: Any = env.unwrapped
    simulator = Simulator(base.problem.units, base.cost_table(), PRESETS[schedule])
    env.reset()
    for unit in range(base.problem.n_units):
        observation = env.step(unit % 2)[0]
        _, start, _ = simulator.schedule(placed(observation).astype(np.uint8))
        np.testing.assert_allclose(observation["start"] * start.max(), start, rtol=1e-6)
    assert observation["start"].max() == 1.0


def test_per_unit_start_times_of_the_diamond_match_by_hand() -> None:
    problem = diamond_problem()
    backend = SimulatedBackend(problem, diamond_costs(problem), PRESETS["event"])
    env = PerUnitEnv(DevicePlacementEnv(backend))
    env.reset()
    observations = [env.step(device)[0] for device in (0, 1, 1, 0)]
    assert (9.625 * observations[-1]["start"]).tolist() == pytest.approx([0.0, 4.5, 6.5, 9.625])


MEMORY = {"static": 1000, "outputs": 6000, "lifetime": 7000}
"""Bytes of the diamond on the GPU: all weights, and b's and c's outputs with a's until c ends."""


def on_the_gpu(memory_bytes: int, **axes: Any) -> Any:
    problem = diamond_problem((CPU_GPU[0], DeviceSpec("GPU", memory_bytes=memory_bytes)))
    backend = SimulatedBackend(problem, diamond_costs(problem), Semantics(**axes))
    return backend.evaluate(problem.single(1))


@pytest.mark.parametrize("schedule", ["event", "list"])
@pytest.mark.parametrize("memory", MEMORY)
def test_a_limit_counts_weights_or_live_outputs_or_both(memory: str, schedule: str) -> None:
    need = MEMORY[memory]
    assert on_the_gpu(need, schedule=schedule, memory=memory).feasible
    refused = on_the_gpu(need - 1, schedule=schedule, memory=memory)
    assert not refused.feasible
    assert "GPU would hold" in refused.error
    assert on_the_gpu(0, schedule=schedule, memory="off").feasible


def test_memory_above_a_limit_may_cost_time_instead() -> None:
    axes = {"schedule": "event", "memory": "outputs", "memory_penalty_ms_per_gb": 2e6}
    free, fined = on_the_gpu(6000, **axes), on_the_gpu(5500, **axes)
    assert (free.feasible, fined.feasible) == (True, True)
    assert fined.latency_ms == pytest.approx(free.latency_ms + 2e6 * 500 / 1e9)


def test_constants_parameters_and_results_of_raw_move_nothing() -> None:
    env = made(model="tiny", graph="raw", granularity="op")
    env.reset(seed=0)
    problem = env.problem
    follows = problem.units.quotient.follows
    placement = np.arange(problem.n_units) // 4 % 2
    there, here = (np.where(follows, device, placement) for device in (0, 1))
    infos = [env.step(action)[-1] for action in (there, here)]
    assert follows.any()
    assert infos[0]["n_transfers"] > 0
    for key in ("latency_ms", "n_transfers", "transfer_bytes"):
        assert infos[0][key] == infos[1][key]
    cut = minimum_cut(problem.units, env.cost_table()).assignment
    best = env.step(cut)[-1]["latency_ms"]
    assert best <= min(info["latency_ms"] for info in infos)
