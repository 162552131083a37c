from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest

import placement_gym
from placement_gym.base.errors import EngineError, UserError
from placement_gym.base.processes.child import Child
from placement_gym.envs.online import engine as engine_module
from placement_gym.envs.online.env import OnlineEnv
from placement_gym.envs.online.executor import PlanExecutor
from placement_gym.envs.online.measured import BURN
from placement_gym.envs.online.plans import PlanTable
from placement_gym.envs.online.proposals import propose_plans
from placement_gym.models.loading import load
from placement_gym.workloads.samples import sample_inputs


@pytest.fixture(scope="module")
def plans() -> PlanTable:
    return propose_plans(["tiny"], "cpu-testbed-pair")


@pytest.fixture(scope="module")
def executor(plans: PlanTable) -> Iterator[PlanExecutor]:
    with PlanExecutor(plans, {}) as executor:
        yield executor


def test_every_plan_computes_what_the_model_does(plans: PlanTable, executor: PlanExecutor) -> None:
    model = load("tiny")
    inputs = sample_inputs(model)
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    expected = ov.Core().compile_model(model, "CPU", exact)(inputs).to_tuple()
    for number in range(len(plans.plans[0])):
        outputs, seconds = executor.submit(0, number, inputs).result(60)
        np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-4, atol=1e-5)
        assert seconds > 0
    assert any(len(plan.stages) > 1 for plan in plans.plans[0])


def test_a_server_answers_in_order_and_names_its_models(plans: PlanTable) -> None:
    inputs = sample_inputs(load("tiny"))
    with placement_gym.serve_plans(plans, "lookahead") as server:
        answers = [server.submit("tiny", inputs) for _ in range(6)]
        with pytest.raises(UserError, match="tiny"):
            server.submit("tini", inputs)
        assert all(len(answer.result(60)[0]) == 1 for answer in answers)
        assert server.executor.look().queue_ms.tolist() == [0.0, 0.0]


def test_a_failing_stage_fails_its_request_alone(
    executor: PlanExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = sample_inputs(load("tiny"))
    run, left = executor.run, [2]

    def fail_twice(*task: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise RuntimeError("device lost")
        return run(*task)

    monkeypatch.setattr(executor, "run", fail_twice)
    answers = [executor.submit(0, plan, inputs) for plan in (0, 1, 2, 0)]
    errors = [answer.exception(60) for answer in answers]
    assert [isinstance(error, EngineError) for error in errors].count(True) == 2
    assert all("device lost" in str(error) for error in errors if error is not None)


def test_requests_outlive_engines_that_are_killed(executor: PlanExecutor) -> None:
    inputs = sample_inputs(load("tiny"))
    (expected,), _ = executor.submit(0, 0, inputs).result(60)
    engine = executor.engines[executor.tables.device[0]]
    before = len(engine.ends)
    for _ in range(2):
        answers = [executor.submit(0, 0, inputs) for _ in range(8)]
        engine.child.process.kill()
        for answer in answers:
            np.testing.assert_array_equal(answer.result(60)[0][0], expected)
    assert engine.ends[before:] == ["killed by SIGKILL"] * 2


def test_a_stage_that_always_crashes_its_engine_fails_alone(
    executor: PlanExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = sample_inputs(load("tiny"))
    engine = executor.engines[executor.tables.device[0]]
    start = engine.start

    def start_and_crash() -> Child:
        child = start()
        child.process.kill()
        return child

    monkeypatch.setattr(engine, "start", start_and_crash)
    engine.child.process.kill()
    failure = executor.submit(0, 0, inputs).exception(60)
    monkeypatch.undo()
    assert "2 times: killed by SIGKILL" in str(failure)
    assert len(executor.submit(0, 0, inputs).result(60)[0]) == 1


def test_requests_outlive_an_engine_that_hangs(
    executor: PlanExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "LEAST_S", 0.5)
    inputs = sample_inputs(load("tiny"))
    (expected,), _ = executor.submit(0, 0, inputs).result(60)
    engine = executor.engines[executor.tables.device[0]]
    assert engine.child is not None
    before = len(engine.ends)
    engine.child.process.send_signal(signal.SIGSTOP)
    answers = [executor.submit(0, 0, inputs) for _ in range(4)]
    for answer in answers:
        np.testing.assert_array_equal(answer.result(60)[0][0], expected)
    assert engine.ends[before:]
    assert all(end.startswith("a request took more than") for end in engine.ends[before:])


def test_a_measured_trace_accounts_for_every_request() -> None:
    env = OnlineEnv(
        models=["tiny"], devices="cpu-testbed-pair", measured=True, requests=12, pace=1.0
    )
    try:
        env.reset(seed=0)
        infos = [env.step(int(number % 2))[4] for number in range(12)]
    finally:
        env.close()
    assert sum(info["finished"] for info in infos) == 12
    assert not any(info["failed"] for info in infos)
    assert all(stage.ms > 0 for stage in env.plans.stages())


def test_loads_of_other_devices_are_not_controlled() -> None:
    with pytest.raises(UserError, match="pass pace=1"):
        OnlineEnv(models=["tiny"], devices="cpu-testbed", measured=True)


def test_a_burner_ends_with_the_program_that_started_it() -> None:
    start = (
        "import os, subprocess, sys\n"
        "burn = [sys.executable, '-c', sys.argv[1], str(os.getpid())]\n"
        "print(subprocess.Popen(burn, stdout=subprocess.DEVNULL).pid)"
    )
    text = subprocess.run([sys.executable, "-c", start, BURN], stdout=subprocess.PIPE, check=True)
    stat = Path(f"/proc/{int(text.stdout)}/stat")
    for _ in range(100):
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    raise AssertionError("it still burns")
