# White-box tests of backends.measured, cli, deployment
"""Plans: what is measured, what is handed over, and what is said about it."""

from __future__ import annotations

import inspect
import io
import json
import re
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import openvino as ov
import pytest
from fakes import LIMITED, FakeBackend, diamond_costs, diamond_problem
from foreign_models import save_chain_ir, save_residual_onnx
from testbed import outputs, worst_relative

from placement_gym.backends import Finals, Measurement
from placement_gym.backends.measured import TimingProtocol
from placement_gym.backends.measured.hetero import count_submodels
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import EngineError, UserError
from placement_gym.bench import open_scene
from placement_gym.cli import main
from placement_gym.cli.tables import explain_bound
from placement_gym.deployment import compile_model, fidelity, plan
from placement_gym.deployment.candidates import Candidate, explain_candidates, propose_candidates
from placement_gym.deployment.selection import (
    add_measurement,
    choose,
    make_rows,
    state_plan_verdict,
)
from placement_gym.models import load_model
from placement_gym.problem import Placement

SHORT = TimingProtocol(0, 2, final_repeats=2, final_compiles=2, fit_placements=0)
ALONE, SPLIT = np.array([1, 1, 1, 1]), np.array([0, 1, 1, 1])


def gpu_alone(measured: Measurement | None = None, error: str = "") -> Candidate:
    return Candidate("GPU alone", ALONE, 9.0, measured=measured, error=error)


def cpu_alone(measured: Measurement | None = None, error: str = "") -> Candidate:
    return Candidate("CPU alone", 1 - ALONE, 19.0, measured=measured, error=error)


def milp(measured: Measurement | None = None, error: str = "") -> Candidate:
    return Candidate("milp", SPLIT, 8.0, measured=measured, error=error)


def compare(*candidates: Candidate) -> list[dict[str, Any]]:
    """Rows of candidates that were measured together."""
    backend: Any = FakeBackend()
    finals = Finals(backend)
    finals.keep([one.assignment for one in candidates], [one.result for one in candidates])
    return make_rows([add_measurement(finals, one) for one in candidates])


def rows(
    single_ms: float | None, split_ms: float, noise: float = 0.02, other_ms: float = 20.0
) -> list[dict[str, Any]]:
    """Of a single device, a split, and another single device."""
    first_ms = single_ms or other_ms
    split = Measurement(split_ms, first_ms, noise=noise, n_submodels=2)
    if single_ms is None:
        single, other = gpu_alone(error="too large"), cpu_alone(error="too large")
    else:
        single = gpu_alone(Measurement(single_ms, first_ms, n_submodels=1))
        other = cpu_alone(Measurement(other_ms, first_ms, n_submodels=1))
    return make_rows([single, milp(split), other])


@pytest.mark.parametrize(
    ("single_ms", "split_ms", "noise", "label", "said"),
    [
        (10.0, 8.0, 0.02, "milp", "milp beats .* single device by 25.0 %."),
        (10.0, 9.9, 0.02, "GPU alone", "No split beats GPU alone; milp .* noise."),
        (10.0, 12.0, 0.02, "GPU alone", "No split beats GPU alone: .* milp, is 0.83 x."),
        (None, 12.0, 0.02, "milp", "No single device .*; milp is the fastest split."),
    ],
)
def test_a_split_is_the_plan_only_if_it_wins_beyond_its_noise(
    single_ms: float | None, split_ms: float, noise: float, label: str, said: str
) -> None:
    found = rows(single_ms, split_ms, noise)
    assert choose(found) == label
    assert re.fullmatch(said, state_plan_verdict(found, label))


@pytest.mark.parametrize("doubtful", ["GPU alone", "milp"])
def test_a_doubtful_measurement_decides_nothing_and_that_is_said(doubtful: str) -> None:
    measured = {"GPU alone": Measurement(10.0, 10.0), "milp": Measurement(8.0, 10.0)}
    measured[doubtful] = replace(measured[doubtful], warning="busy")
    found = compare(gpu_alone(measured["GPU alone"]), milp(measured["milp"]))
    assert choose(found) == "GPU alone"
    assert re.search("could not be decided: busy.*again", state_plan_verdict(found, "GPU alone"))


def test_a_doubtful_split_does_not_hide_one_that_wins() -> None:
    lucky = Measurement(7.0, 10.0, warning="the reference moved")
    window = Candidate("window", 1 - SPLIT, 8.0, measured=lucky)
    single, split = gpu_alone(Measurement(10.0, 10.0)), milp(Measurement(8.0, 10.0))
    assert choose(make_rows([single, split, window])) == "milp"


def test_rows_are_relative_to_the_fastest_single_device() -> None:
    found = rows(10.0, 8.0)
    assert [row["label"] for row in found] == ["milp", "GPU alone", "CPU alone"]
    assert [row["speedup"] for row in found] == pytest.approx([1.25, 1.0, 0.5])


def test_a_drift_between_measurements_does_not_choose_the_plan() -> None:
    """The slower device was measured while the machine was fast, as its reference says."""
    found = compare(gpu_alone(Measurement(10.0, 20.0)), cpu_alone(Measurement(9.0, 10.0)))
    assert [row["speedup"] for row in found] == pytest.approx([1.0, 1.0 / 1.8])
    assert choose(found) == "GPU alone"


def test_where_nothing_ran_there_is_no_plan() -> None:
    nothing = make_rows([gpu_alone(error="too large")])
    assert nothing[0]["measured_ms"] is None
    with pytest.raises(EngineError, match=r"no candidate fits.*GPU alone: too large"):
        choose(nothing)


def labels(found: Sequence[Candidate]) -> set[str]:
    return {candidate.label for candidate in found}


def test_candidates_are_listed_without_repetition() -> None:
    twin = SimulatedBackend(diamond_problem(), diamond_costs(diamond_problem()))
    found, bound_ms = propose_candidates(twin, 5.0)
    assert {"CPU alone", "GPU alone"} <= labels(found) <= {
        "CPU alone", "GPU alone", "milp", "search", "prefix", "window",
    }  # fmt: skip
    assert len({candidate.assignment.tobytes() for candidate in found}) == len(found)
    for candidate in found:
        assert (
            candidate.predicted_ms == twin.evaluate_ignoring_limits(candidate.assignment).latency_ms
        )
    best_ms = min(candidate.predicted_ms for candidate in found)
    assert best_ms == pytest.approx(bound_ms, rel=1e-4)


def test_solutions_keep_to_memory_limits() -> None:
    problem = diamond_problem(LIMITED)
    found, _ = propose_candidates(SimulatedBackend(problem, diamond_costs(problem)), 5.0)
    for candidate in found:
        if not candidate.label.endswith("alone"):
            assert problem.infeasibility(candidate.assignment) == ""


class Planned(NamedTuple):
    """A plan that was measured once for several tests."""

    model: ov.Model
    document: dict[str, Any]
    said: str


@pytest.fixture(
    scope="module",
    params=[
        ("residual.onnx", save_residual_onnx, "cpu-testbed-limited"),
        pytest.param(("chain.xml", save_chain_ir, "cpu-testbed"), marks=pytest.mark.slow),
    ],
    ids=["residual-onnx", "chain-ir"],
)
def planned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pictures: Any
) -> Planned:
    """A network from outside the zoo, its file written by the test, planned and measured."""
    name, save, devices = request.param
    folder = tmp_path_factory.mktemp("plan")
    # Read once: OpenVINO's automatic names for parts of an ONNX model change with each reading.
    model = load_model(save(folder / name))
    said = io.StringIO()
    with redirect_stderr(said), pictures(), pytest.MonkeyPatch.context() as patch:
        for module in ("deployment.planning", "backends.measured.kept_profiles"):
            patch.setattr(f"placement_gym.{module}.QUICK", SHORT)
        document = plan(model, devices, out=folder / "out")
    return Planned(model, document, said.getvalue())


def test_plan_is_a_placement_file_that_compiles_and_computes(planned: Planned) -> None:
    check_outputs(planned.model, Placement.load(planned.document["file"]))


def test_a_foreign_network_computes_the_same_on_two_devices(planned: Planned) -> None:
    file = Placement.load(planned.document["file"])
    names = [device.name for device in file.devices]
    turns = {unit: names[turn // 2 % 2] for turn, unit in enumerate(file.units)}
    n_submodels = check_outputs(planned.model, replace(file, units=turns))
    assert n_submodels >= len(turns) // 2


def check_outputs(model: ov.Model, placement: Placement) -> int:
    """Compare a compiled placement with the plain model; the number of its submodels."""
    compiled = compile_model(ov.Core(), model, placement)
    plain = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert worst_relative(outputs(compiled, model), outputs(plain, model)) < 1e-4
    return count_submodels(compiled)


def test_every_candidate_is_measured_unless_memory_forbids_it(planned: Planned) -> None:
    rows = planned.document["rows"]
    assert {"CPU alone", "CPU_FAST alone"} <= {row["label"] for row in rows}
    for row in rows:
        assert (row["measured_ms"] is None) == bool(row["error"])
        assert not row["error"] or "CPU_FAST would hold" in row["error"]
    chosen = next(row for row in rows if row["label"] == planned.document["plan"])
    assert chosen["measured_ms"] > 0
    assert planned.document["verdict"]


def test_a_plan_leaves_its_report_and_a_picture(planned: Planned) -> None:
    folder = Path(planned.document["file"]).parent
    name = planned.document["model"]
    report = folder / f"plan-{name}-report.json"
    assert json.loads(report.read_text()) == planned.document
    with pytest.raises(UserError, match="is not a placement file: it is a plan's report"):
        Placement.load(report)
    assert (folder / f"plan-{name}.png").read_bytes().startswith(b"\x89PNG")
    assert planned.document["notes"][0].startswith("test bed")


def test_view_explains_a_plan_by_the_costs_it_was_solved_for(planned: Planned) -> None:
    scene = open_scene([planned.document["file"]], planned.model)
    assert scene.backend.costs.source == "profiled"
    shown = scene.backend.evaluate_ignoring_limits(scene.placements[0].assignment)
    chosen = next(
        row for row in planned.document["rows"] if row["label"] == planned.document["plan"]
    )
    assert shown.latency_ms == pytest.approx(chosen["predicted_ms"])


def test_a_plan_says_first_how_many_units_there_are(planned: Planned) -> None:
    units = Placement.load(planned.document["file"]).units
    assert len(units) >= 4
    note = f"{len(units)} units to place (granularity 'fused')"
    assert planned.document["notes"][-1] == note
    said = [line for line in planned.said.splitlines() if not line.startswith("reading")]
    assert said[0].endswith(f": {note}")


def test_the_names_of_candidates_are_explained() -> None:
    said = explain_candidates(
        [
            Candidate("CPU alone", ALONE, 9.0, ("search",)),
            Candidate("milp, 10 % less on GPU", SPLIT, 8.0),
        ]
    )
    assert list(said) == ["milp", "search", "less on"]


def test_the_command_prints_the_table_and_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    doubtful = Measurement(10.0, 10.0, warning="the reference moved")
    alone = Candidate("CPU alone", ALONE, 9.0, measured=doubtful)
    rows = make_rows([alone, milp(error="does not run: the device caught fire")])
    document = {
        "model": "tiny", "devices": ["CPU", "CPU_FAST"], "notes": ["test bed"], "plan": "CPU alone",
        "saved": "Saved: CPU alone", "verdict": "No split beats CPU alone.", "bound_ms": 8.1,
        "wall_s": 3.0,
        "file": "plan-tiny.json", "rows": rows, "meanings": {"milp": "the optimum"},
    }  # fmt: skip
    monkeypatch.setattr("placement_gym.deployment.plan", lambda **_: document)
    words = ["plan", "--model", "tiny", "--devices", "cpu-testbed", "--out", str(tmp_path)]
    assert main(words) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("Saved: CPU alone")
    for said in (
        "predicted ms",
        "CPU alone",
        "caught fire",
        "doubtful: the reference",
        "No split beats",
        "plan-tiny.json",
    ):
        assert said in printed
    # A bound of the profile stands next to a prediction, as times that were measured may be below.
    said = "The profile predicts 9.00 ms for CPU alone; no placement is predicted below 8.10 ms."
    assert said in printed
    assert "milp: the optimum" in printed
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "tiny"
    assert "--time-limit" in explain_bound({"bound_ms": 0.0})


@pytest.mark.parametrize("tool", [plan, fidelity])
def test_unwritable_output_folder_is_found_before_building(
    tool: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: Callable[..., None] = lambda *_, **__: pytest.fail("built a backend")  # noqa: E731
    for module in ("planning", "prediction_errors"):
        monkeypatch.setattr(f"placement_gym.deployment.{module}.build_divisible_backend", nothing)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write results into"):
        tool("tiny", "cpu-testbed", out=tmp_path / "file" / "folder")


@pytest.mark.parametrize("tool", [plan, fidelity])
def test_keywords_are_flat_and_a_wrong_one_names_the_nearest(tool: Callable[..., Any]) -> None:
    assert {"granularity", "shapes", "tolerance"} <= set(inspect.signature(tool).parameters)
    with pytest.raises(TypeError, match="did you mean 'granularity'"):
        tool("tiny", "cpu-testbed", granularty="op")
    with pytest.raises(TypeError, match="positional"):
        tool("tiny", "cpu-testbed", "op")


def test_one_device_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: Callable[..., None] = lambda *_, **__: pytest.fail("built a backend")  # noqa: E731
    monkeypatch.setattr("placement_gym.deployment.profiling.build_measured_backend", nothing)
    with pytest.raises(UserError, match=r"one device, 'CPU'.*'cpu-testbed'"):
        plan("tiny", "CPU", out=tmp_path, quiet=True)


def test_a_time_limit_is_above_0(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="time_limit_s must be a number of at least 0"):
        plan("tiny", time_limit_s=-1.0, out=tmp_path, quiet=True)


def test_the_noise_of_the_single_device_counts_too() -> None:
    first = Measurement(20.0, 20.0)
    faster = Measurement(10.0, 20.0, noise=0.3)
    split = Measurement(9.9, 20.0, noise=0.005)
    found = compare(gpu_alone(first), cpu_alone(faster), milp(split))
    assert choose(found) == "CPU alone"
