# White-box tests of envs.online
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from graphs import simulate as simulate_model
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3
from stable_baselines3.common.env_util import make_vec_env

from placement_gym.base import UserError
from placement_gym.envs.online import OnlineEnv, PlanStage, PlanTable, ServingPlan
from placement_gym.envs.online.kernel import Trace, find_end, find_work, look_ahead, play
from placement_gym.envs.online.proposals import propose_plans
from placement_gym.envs.online.rules import RULES, make_rule, play_anew
from placement_gym.hardware import DeviceSpec
from placement_gym.models import Member

ID = "DevicePlacementOnline-v0"


def plan(label: str, *stages: tuple[str, float, int]) -> ServingPlan:
    return ServingPlan(label, tuple(PlanStage(d, ms, 0.1 * mb, mb) for d, ms, mb in stages))


@pytest.fixture(scope="module")
def table() -> PlanTable:
    """Two models on a host and an accelerator that holds one of them at a time."""
    a = plan("CPU alone", ("CPU", 20.0, 60)), plan("GPU alone", ("GPU", 10.0, 60))
    b = plan("CPU alone", ("CPU", 16.0, 50)), plan("GPU alone", ("GPU", 8.0, 50))
    split = plan("split", ("GPU", 6.0, 30), ("CPU", 5.0, 30))
    devices = DeviceSpec("CPU"), DeviceSpec("GPU", memory_bytes=100)
    return PlanTable((Member("a", 1), Member("b", 2)), devices, ((*a, split), b))


def simulate(
    table: PlanTable, arrivals_ms: list[float], models: list[int], plans: Sequence[int]
) -> list[float]:
    """Latencies of requests by plans."""
    env = OnlineEnv(plans=table)
    env.begin(Trace(np.array(arrivals_ms), np.array(models), np.full((2, 1), np.inf)))
    return [env.step(number)[4]["latency_ms"] for number in plans]


def test_text_shows_the_plans_and_the_last_request() -> None:
    env = gym.make(
        "DevicePlacementOnline-v0", models=["tiny"], devices="cpu+dgpu", render_mode="ansi"
    )
    env.reset(seed=0)
    _, _, _, _, info = env.step(0)
    shown = str(env.render())
    assert "tiny" in shown
    assert f"'latency_ms': {info['latency_ms']}" in shown
    with pytest.raises(UserError, match="render_mode must be one of ansi"):
        OnlineEnv(models=["tiny"], render_mode="film")


def test_stable_baselines_makes_several_and_pictures_show_their_queues() -> None:
    envs = make_vec_env(ID, n_envs=2, env_kwargs={"models": ["tiny"]}, seed=0)
    assert envs.reset().shape[0] == 2
    before = envs.get_images()
    envs.step(np.zeros(2, np.int64))
    after = envs.get_images()
    assert {image.shape for image in (*before, *after) if image is not None} == {(300, 800, 3)}
    assert not np.array_equal(before[0], after[0])


def test_people_see_every_request(capsys: pytest.CaptureFixture[str]) -> None:
    env = OnlineEnv(models=["tiny"], render_mode="human")
    env.reset(seed=0)
    env.step(0)
    assert f"last request: {env.info}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arrivals_ms", "models", "plans", "expected_ms"),
    [
        # GPU: a loads 6 and runs 10; b waits until 16, loads 5, evicts a, runs 8; a loads again.
        ([0.0, 1.0, 2.0], [0, 1, 0], (1, 1, 1), [16.0, 28.0, 43.0]),
        # CPU is busy for 5 + 16; a split's first stage ends at 3 + 6, its second begins at 21.
        ([0.0, 0.0], [1, 0], (0, 2), [21.0, 21.0 + 3.0 + 5.0]),
    ],
    ids=["queue and weights", "stages of a split"],
)
def test_latencies_of_requests_are_those_worked_out_by_hand(
    arrivals_ms: list[float],
    models: list[int],
    plans: tuple[int, ...],
    expected_ms: list[float],
    table: PlanTable,
) -> None:
    assert simulate(table, arrivals_ms, models, plans) == pytest.approx(expected_ms)


def test_predictions_are_true_while_nothing_changes(table: PlanTable) -> None:
    for plans in product((0, 1), (0, 1), (0, 1, 2)):
        env = OnlineEnv(plans=table)
        quiet = np.full((2, 1), np.inf)
        env.begin(Trace(np.array([0.0, 3.0, 4.0]), np.array([0, 1, 0]), quiet))
        env.step(plans[0])
        seen, *_ = env.step(plans[1])
        ms = env.step(plans[2])[4]["latency_ms"]
        assert np.exp(seen[env.parts["latency"]][plans[2]]) == pytest.approx(ms / 10.0, rel=1e-5)


def test_weights_that_a_plan_displaces_are_seen(table: PlanTable) -> None:
    # The GPU holds a's weights, 60 of 100; it has to drop them for b's, not for the split's.
    env = OnlineEnv(plans=table)
    env.begin(Trace(np.array([0.0, 3.0, 4.0]), np.array([0, 1, 0]), np.full((2, 1), np.inf)))
    first, *_ = env.step(1)
    second, *_ = env.step(1)
    mean_ms, share = table.tables.reference_ms.mean(), env.parts["mix"].start
    dropped = np.log1p(first[share] * 6.0 / mean_ms)
    assert first[env.parts["displaced"]] == pytest.approx([0.0, dropped, 0.0])
    dropped = np.log1p(second[share + 1] * 5.0 / mean_ms)
    assert second[env.parts["displaced"]] == pytest.approx([0.0, dropped, 0.0])
    # Stages are a's on the CPU and on the GPU, the split's two, and b's.
    assert first[env.parts["resident"]].tolist() == [0, 1, 0, 0, 0, 0]
    assert second[env.parts["resident"]].tolist() == [0, 0, 0, 0, 0, 1]
    third, *_ = env.step(0)
    assert third[env.parts["resident"]] == pytest.approx([1, 0, 0, 0, 0, 10 / 11])


def test_looking_ahead_is_the_mean_of_two_requests_that_are_played(table: PlanTable) -> None:
    env = OnlineEnv(plans=table, rate=1.5, trace="validation")
    env.action_space.seed(0)
    env.reset(options={"trace": 0})
    for _ in range(50):
        env.step(env.action_space.sample())
        state, gap_ms = env.state, env.state.gap_ms[0]
        toggles_ms = np.where(state.pace > 1.0, -1.0, np.inf)[:, None]
        for plan in np.flatnonzero(env.action_masks()):
            totals = [
                play(
                    env.tables,
                    Trace(np.array([0.0, gap_ms]), np.array([env.model, following]), toggles_ms),
                    env.pace,
                    state.queue_ms * state.pace,
                    state.used.copy(),
                    np.array([plan, -1]),
                )
                for following in range(2)
            ]
            mean = np.average(totals, weights=state.mix)
            assert look_ahead(env.tables, state, env.model, plan) == pytest.approx(mean)


def test_work_takes_longer_while_others_have_the_device() -> None:
    load = np.array([5.0, 15.0, 30.0]), 2.0
    # 5 ms alone, 10 beside another program (5 of work), then alone again.
    assert find_end(*load, 0.0, 12.0) == pytest.approx(17.0)
    for begin, work in ((0.0, 3.0), (4.0, 20.0), (29.0, 8.0)):
        end = find_end(*load, begin, work)
        assert find_work(*load, begin, end) == pytest.approx(work)


def test_both_checks_pass(table: PlanTable) -> None:
    check_env(gym.make(ID, plans=table, requests=20).unwrapped, skip_render_check=True)
    check_env_for_sb3(gym.make(ID, plans=table, requests=20))


def test_observations_stay_within_the_space(table: PlanTable) -> None:
    env = OnlineEnv(plans=table, rate=1.5, requests=100)
    env.action_space.seed(0)
    seen, _ = env.reset(seed=0)
    for _ in range(100):
        assert env.observation_space.contains(seen)
        seen, *_ = env.step(env.action_space.sample())


def test_the_vector_form_plays_a_trace_for_each_seed(table: PlanTable) -> None:
    envs = gym.make_vec(ID, num_envs=2, plans=table, requests=30)
    single = OnlineEnv(plans=table, requests=30)
    many, _ = envs.reset(seed=[3, 4])
    one, _ = single.reset(seed=4)
    for action in (0, 1, 1):
        np.testing.assert_array_equal(one, many[1])
        one, own, *_ = single.step(action)
        many, rewards, *_ = envs.step(np.array([0, action]))
        assert own == rewards[1]
    envs.close()


def test_a_plan_that_the_model_lacks_becomes_its_first(table: PlanTable) -> None:
    env = OnlineEnv(plans=table)
    for number in range(50):
        env.reset(options={"trace": number})
        if env.model == 1:
            break
    assert env.action_masks().tolist() == [True, True, False]
    info = env.step(2)[4]
    assert info["refused"]
    assert info["plan"] == 0


def test_a_request_is_late_beyond_a_slow_down_of_four(table: PlanTable) -> None:
    env = OnlineEnv(plans=table, rate=1.5)
    env.reset(seed=0)
    infos = [env.step(1)[4] for _ in range(100)]
    late = [info["late"] for info in infos]
    assert late == [info["slowdown"] > 4.0 for info in infos]
    assert 0 < sum(late) < 100


def test_traces_repeat_and_splits_differ(table: PlanTable) -> None:
    traces = [
        OnlineEnv(plans=table, trace=split).make_trace(3).arrivals_ms
        for split in ("train", "train", "validation", "test")
    ]
    np.testing.assert_array_equal(traces[0], traces[1])
    assert len({one[0] for one in traces}) == 3


def test_a_file_of_arrivals_is_played(table: PlanTable, tmp_path: Path) -> None:
    file = tmp_path / "arrivals.csv"
    file.write_text("time_ms,model\n100,b\n104.5,a\n")
    env = OnlineEnv(plans=table, trace=str(file), pace=1.0)
    env.reset(seed=0)
    assert not env.step(1)[3]
    assert env.step(1)[3]
    np.testing.assert_array_equal(env.trace.arrivals_ms, [0.0, 4.5])
    file.write_text("time_ms,model\n100,c\n")
    with pytest.raises(UserError, match=r"line 2: a line is time_ms,model with .* one of a, b"):
        OnlineEnv(plans=table, trace=str(file))


def test_a_policy_that_hides_loads_sees_none(table: PlanTable) -> None:
    env, hidden = (OnlineEnv(plans=table, observe_load=seen) for seen in (True, False))
    for number in range(50):
        seen, _ = env.reset(options={"trace": number})
        unseen, _ = hidden.reset(options={"trace": number})
        if seen[env.parts["load"]].any():
            break
    assert not unseen[env.parts["load"]].any()
    assert (unseen[env.parts["latency"]] < seen[env.parts["latency"]]).any()


def find_clairvoyant(env: OnlineEnv, number: int) -> float:
    """Least sum of log slow-downs of a short trace, over all choices of plans."""
    trace = env.make_trace(number)
    own = [np.flatnonzero(env.tables.allowed[model]) for model in trace.models]
    best = np.inf
    for plans in product(*own):
        best = min(best, play_anew(env, trace, np.array(plans)))
    return best


@pytest.mark.parametrize("name", RULES)
def test_no_rule_beats_the_clairvoyant(table: PlanTable, name: str) -> None:
    env = OnlineEnv(plans=table, trace="validation", rate=1.2, requests=6)
    rule = make_rule(name, env)
    for number in range(3):
        (seen, _), total = env.reset(options={"trace": number}), 0.0
        for _ in range(6):
            action, _ = rule.predict(seen)
            seen, reward, *_ = env.step(int(action))
            total -= reward
        assert total >= find_clairvoyant(env, number) - 1e-9


def test_the_resident_rule_never_loads_twice(table: PlanTable) -> None:
    env = OnlineEnv(plans=table, trace="validation", requests=60)
    rule = make_rule("resident", env)
    (seen, _), loaded = env.reset(options={"trace": 0}), 0.0
    for _ in range(60):
        seen, _, _, _, info = env.step(int(rule.predict(seen)[0]))
        loaded += info["loaded_bytes"]
    assert loaded <= 110


def test_an_unknown_rule_names_the_others(table: PlanTable) -> None:
    with pytest.raises(UserError, match="rollouts"):
        make_rule("greedy", OnlineEnv(plans=table))


def test_wrong_arguments_say_what_is_possible(table: PlanTable) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"trace": "tests"}, "did you mean 'test'"),
        ({"rate": 0}, "above 0"),
        ({"pace": 0.5}, "at least 1"),
    ]
    for kwargs, message in wrong:
        with pytest.raises(UserError, match=message):
            OnlineEnv(plans=table, **kwargs)
    with pytest.raises(UserError, match="analytic, profiled"):
        OnlineEnv(models=["tiny"], costs="measured")
    with pytest.raises(UserError, match="must be a list"):
        OnlineEnv(models="resnet")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def proposed() -> PlanTable:
    """Plans of two small models; the accelerator holds 60 % of both."""
    gpu = {"name": "GPU", "weight_share": 0.6}
    return propose_plans(["tiny", "cnn:2"], ["CPU", gpu])


def test_stages_of_a_plan_take_what_the_simulator_says(proposed: PlanTable) -> None:
    for model, plans in zip(("tiny", "cnn"), proposed.plans, strict=True):
        backend = simulate_model(model, devices=["CPU", "GPU"])
        for one in plans:
            assert one.placement is not None
            assignment = one.placement.assignment(backend.problem)
            assert one.ms == pytest.approx(backend.evaluate(assignment).latency_ms)


def test_plans_are_single_devices_splits_and_a_pipeline(proposed: PlanTable) -> None:
    labels = [{one.label.split()[-1] for one in plans} for plans in proposed.plans]
    assert all("alone" in names for names in labels)
    assert any(len(one.stages) > 1 for plans in proposed.plans for one in plans)
    limit = proposed.devices[1].memory_bytes
    assert limit is not None
    for stage in proposed.stages():
        assert stage.device == "CPU" or stage.held_bytes <= limit


def test_plans_are_the_same_when_loaded(proposed: PlanTable, tmp_path: Path) -> None:
    file = tmp_path / "plans.json"
    proposed.save(file)
    assert PlanTable.load(file) == proposed
    env = gym.make(ID, plans=str(file), requests=10)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.observation_space == env.observation_space
    file.write_text(file.read_text().replace('"held_bytes"', '"bytes"'))
    with pytest.raises(UserError, match="held_bytes"):
        PlanTable.load(file)


def test_a_policy_of_other_plans_sees_another_space(proposed: PlanTable) -> None:
    slower = replace(proposed.plans[0][0].stages[0], ms=1e3)
    first = (replace(proposed.plans[0][0], stages=(slower,)), *proposed.plans[0][1:])
    other = replace(proposed, plans=(first, *proposed.plans[1:]))
    spaces = [OnlineEnv(plans=plans).observation_space for plans in (proposed, other)]
    assert spaces[0] != spaces[1]


def test_profiled_plans_have_this_machines_times() -> None:
    analytic, profiled = (
        OnlineEnv(models=["tiny"], devices="cpu-testbed-pair", costs=costs).plans
        for costs in ("analytic", "profiled")
    )
    backend = simulate_model("tiny", devices="cpu-testbed-pair", costs="profiled")
    for one in profiled.plans[0]:
        assert one.placement is not None
        latency_ms = backend.evaluate(one.placement.assignment(backend.problem)).latency_ms
        assert one.ms == pytest.approx(latency_ms)
    assert profiled.plans[0][0].ms != analytic.plans[0][0].ms


@pytest.mark.parametrize("argument", [{"trace": None}, {"costs": []}, {"models": 5}, {"plans": 5}])
def test_argument_of_another_type_is_named(argument: dict[str, Any]) -> None:
    ((name, value),) = argument.items()
    with pytest.raises(UserError, match=rf"{name} .*{re.escape(str(value))}"):
        gym.make("DevicePlacementOnline-v0", **argument)
