# White-box tests of backends.measured, cli, deployment
"""Several models at once: measured side by side, planned, run in a program, exported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from typing import Any
from unittest.mock import Mock

import numpy as np
import openvino as ov
import pytest
from fakes import FakeBackend, diamond_problem
from foreign_models import make_chain, make_decoder, save_chain_ir
from graphs import problem_on
from processes import run_python
from testbed import make, worker_of

from placement_gym.backends import Measurement
from placement_gym.backends.measured import StagedRequest
from placement_gym.backends.measured.in_flight import InFlight, ThreadLane
from placement_gym.base import UserError
from placement_gym.cli import main
from placement_gym.cli.tables import models_tables
from placement_gym.deployment import (
    compile_model,
    compile_stages,
    export_placement,
    split_placement,
)
from placement_gym.deployment.candidates import Candidate
from placement_gym.deployment.planning import select
from placement_gym.deployment.selection import make_rows
from placement_gym.graph import extract
from placement_gym.hardware import DeviceSpec
from placement_gym.models import Member, load_model
from placement_gym.problem import Placement
from placement_gym.workloads import sample_inputs

PAIR = (DeviceSpec("CPU", threads=1), DeviceSpec("CPU_B", plugin="CPU", threads=1))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("ir")
    ov.save_model(make_chain(2, 4, 8), folder / "short.xml", compress_to_fp16=False)
    return [str(folder / "short.xml"), f"{save_chain_ir(folder / 'chain.xml')}:2"]


@pytest.fixture(scope="module")
def env(models: list[str]) -> Any:
    options = {"granularity": "op", "warmup": 0, "repeats": 2, "cache": False}
    return make(models, PAIR, objective="throughput", **options)


def crossed(env: Any) -> Any:
    """The short model is cut in two, the chain is on the second device alone."""
    units = env.problem.units
    names = np.array([name.startswith("short/") for name in units.names])
    return np.where(names & (np.cumsum(names) <= 2), 0, 1)


def test_a_round_runs_each_model_as_often_as_its_rate(
    env: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = env.backend.evaluate(crossed(env))
    assert found.feasible, found.error
    assert (found.n_submodels, len(found.models_ms)) == (3, 2)
    in_flight = worker_of(env.backend).compile(crossed(env)).inferences
    assert isinstance(in_flight, InFlight)
    assert in_flight.requests == 3  # rounds
    assert [lane.free.qsize() for lane in in_flight.lanes] == [3, 6]
    assert {type(lane) for lane in in_flight.lanes} == {ThreadLane}  # two models share a device
    ran, infer = [], StagedRequest.infer

    def note(request: StagedRequest, inputs: Any = None) -> None:
        ran.append(len(request.requests))
        infer(request, inputs)

    monkeypatch.setattr(StagedRequest, "infer", note)
    in_flight.run()
    assert sorted(ran) == [1, 1, 2]  # the chain twice


def test_memory_counts_all_models(env: Any) -> None:
    found = env.backend.evaluate(crossed(env))
    assert sum(found.memory_bytes) == env.problem.unit_bytes.sum()


def test_each_part_of_a_placement_runs_by_openvino_alone(env: Any, models: list[str]) -> None:
    union, placement = load_model(models), Placement.from_assignment(env.problem, crossed(env))
    parts = split_placement(union, placement)
    assert list(parts) == ["short", "chain"]
    model, own = parts["short"]
    assert set(own.units.values()) == {"CPU", "CPU_B"}
    image = sample_inputs(load_model(models[0]))[0]
    compiled = compile_model(ov.Core(), model, own)
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == 2
    f32 = {"INFERENCE_PRECISION_HINT": "f32"}  # else a processor with bf16 rounds to it
    expected = ov.Core().compile_model(load_model(models[0]), "CPU", f32)([image])[0]
    np.testing.assert_allclose(compiled([image])[0], expected, rtol=1e-4)
    with pytest.raises(UserError, match="split_placement"):
        compile_stages(ov.Core(), union, placement)


def test_an_export_runs_all_models(env: Any, models: list[str], tmp_path: Path) -> None:
    script, *files = export_placement(
        Placement.from_assignment(env.problem, crossed(env)), tmp_path, models
    )
    assert script == tmp_path / "run.py"
    assert {file.parent.name for file in files} == {"short", "chain"}
    script.write_text(script.read_text().replace("ROUNDS = 20", "ROUNDS = 1"))
    printed = run_python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
    assert "short: " in printed
    assert "chain: " in printed
    assert "a second" in printed


def test_an_exported_queue_has_the_requests_of_a_model_in_all_rounds(
    env: Any, models: list[str], tmp_path: Path
) -> None:
    placed = Placement.from_assignment(env.problem, crossed(env))
    script, *_ = export_placement(placed, tmp_path, models, requests=3)
    program = run_path(str(script))
    queues = program["make_queues"](program["compile_models"](ov.Core()))
    assert {name: len(queue) for name, queue in queues.items()} == {"short": 3, "chain": 6}
    run_rounds, noted = program["run_rounds"], {name: Mock() for name in queues}
    run_rounds.__globals__["make_queues"] = lambda _: noted
    run_rounds({}, dict.fromkeys(queues, ()), 2)
    assert {name: queue.start_async.call_count for name, queue in noted.items()} == {
        "short": 2,
        "chain": 4,
    }


def test_exported_sequences_have_a_thread_for_each_request(tmp_path: Path) -> None:
    for name in ("one", "two"):
        ov.save_model(make_decoder(), tmp_path / f"{name}.xml", compress_to_fp16=False)
    models = [str(tmp_path / "one.xml"), f"{tmp_path / 'two.xml'}:2"]
    problem = problem_on(extract(load_model(models), "folded", "chat-2-2"), PAIR)
    placed = Placement.from_assignment(problem, problem.single(0))
    script, *_ = export_placement(placed, tmp_path, models, requests=3)
    program = run_path(str(script))
    compiled, run_rounds = program["compile_models"](ov.Core()), program["run_rounds"]
    parts = program["read_scripts"]()
    run_rounds(compiled, {name: parts[name]["make_inputs"](compiled[name]) for name in parts}, 1)
    served: dict[str, list[int]] = {"one": [], "two": []}
    run_rounds.__globals__["serve"] = lambda _, name, sequences: served[name].append(sequences)
    run_rounds(compiled, {name: name for name in served}, 4)
    assert served == {"one": [2, 1, 1], "two": [2, 2, 1, 1, 1, 1]}


def test_each_model_gets_its_rate_times_the_rounds() -> None:
    alone, split = np.zeros(2, dtype=np.int64), np.array([0, 1])
    slow = Measurement(10.0, 10.0, requests=2, models_ms=(20.0, 21.0))
    fast = Measurement(5.0, 10.0, requests=3, models_ms=(15.0, 16.0))
    candidates = [
        Candidate("CPU alone", alone, 9.0, measured=slow),
        Candidate("dp", split, 5.0, measured=fast),
    ]
    models = (Member("a"), Member("b", 2))
    problem = diamond_problem()
    graph = replace(problem.units.graph, models=models)
    backend: Any = FakeBackend(problem=replace(problem, units=replace(problem.units, graph=graph)))
    assert select(backend, candidates, "", phases=False, quiet=True).chosen.label == "dp"
    rows = make_rows(candidates, models)
    assert rows[0]["models"] == {
        "a": {"inferences_per_s": 200.0, "latency_ms": 15.0},
        "b": {"inferences_per_s": 400.0, "latency_ms": 16.0},
    }
    (table,) = models_tables({"rows": rows, "plan": "dp"})
    assert [cells for cells, _ in table.rows] == [
        ["dp", "200.0/s 15.0 ms", "400.0/s 16.0 ms"],
        ["CPU alone", "100.0/s 20.0 ms", "200.0/s 21.0 ms"],
    ]


@pytest.mark.slow
def test_plan_shows_what_each_model_gets(
    models: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--objective throughput --granularity op --time-limit 1 -d cpu-testbed-pair -q"
    named = [word for model in models for word in ("-m", model)]
    assert main(["plan", *named, "--out", str(tmp_path), *words.split()]) == 0
    printed = capsys.readouterr().out
    assert "inferences a second" in printed
    report = json.loads((tmp_path / "plan-short-chain-2-throughput-report.json").read_text())
    names = {name for row in report["rows"] for name in (row["label"], *row["also"])}
    assert {"model-per-device", "AUTO"} <= names
    row = next(row for row in report["rows"] if row["measured_ms"] is not None)
    short, chain = row["models"]["short"], row["models"]["chain"]
    assert chain["inferences_per_s"] == pytest.approx(2 * short["inferences_per_s"])
    assert min(short["latency_ms"], chain["latency_ms"]) > 0
