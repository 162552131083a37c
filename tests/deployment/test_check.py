# White-box tests of deployment
"""What breaks on a device is found, kept off it, and everything else still runs there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openvino as ov
import pytest
from disks import full_disk
from faulty_devices import FaultyCore
from foreign_models import make_chain
from testbed import ONCE, make, measure_here

import placement_gym
from placement_gym.backends.measured import MeasuredBackend, find_supported
from placement_gym.base import UserError
from placement_gym.cli import main
from placement_gym.deployment import FaultFinder, check
from placement_gym.deployment import checking as check_module
from placement_gym.deployment.checking import choose_reference
from placement_gym.deployment.faults import MAX_COMPILATIONS
from placement_gym.graph import extract_spec, group
from placement_gym.hardware import TESTBED, DeviceSpec
from placement_gym.models import ModelSpec
from placement_gym.problem import Constraints, Placement, Problem
from placement_gym.solvers.search import search

FAULTY = "CPU_FAST"
THREE = ("convolution7", "relu20", "convolution41")


def build_backend(
    model: Any, core: FaultyCore, scenario: str | None = None, tolerance: float | None = None
) -> MeasuredBackend:
    """Measures a model in this process by a core with faults, each operator a unit."""
    spec = ModelSpec(model, "op", scenario=scenario)
    loaded = spec.load()
    units = group(extract_spec(loaded, spec), "op")
    known = [core.query_model(loaded, device.name) for device in TESTBED]
    problem = Problem(units, TESTBED, find_supported(units, known))
    return measure_here(core, loaded, problem, protocol=ONCE, tolerance=tolerance)


def find(core: FaultyCore, n_layers: int) -> tuple[FaultFinder, list[str]]:
    """What is found in a chain of 2 x ``n_layers`` operators, and the names of what is at fault."""
    backend = build_backend(make_chain(n_layers), core)
    found = FaultFinder(backend, 1).find()
    return found, [backend.problem.units.names[fault.unit] for fault in found.faults]


def faulty(**faults: Any) -> FaultyCore:
    core = FaultyCore(FAULTY, **faults)
    core.register_plugin("openvino_intel_cpu_plugin", FAULTY)
    return core


def test_a_sound_device_takes_two_compilations() -> None:
    core = faulty()
    found, names = find(core, 4)
    assert (names, found.confirmed, found.compilations) == ([], True, 2)
    assert core.compilations == 2


def test_three_of_a_hundred_operators_take_twelve_compilations() -> None:
    core = faulty(wrong=THREE)
    found, names = find(core, 50)
    assert names == list(THREE)
    assert {fault.kind for fault in found.faults} == {"differs"}
    assert found.confirmed
    assert core.compilations == found.compilations <= 12


def test_a_state_that_a_device_refuses_is_kept_off_with_its_attention() -> None:
    backend = build_backend("gpt", faulty(unknown=["layer2/key/past"]), "chat-4-2")
    found = FaultFinder(backend, 1).find()
    names = [backend.problem.units.names[fault.unit] for fault in found.faults]
    assert (names, found.confirmed, found.compilations) == (["layer2/attention"], True, 2)


@pytest.mark.parametrize("kind", ["refused", "unknown"])
def test_operators_that_errors_or_queries_name_take_a_compilation_each(kind: str) -> None:
    core = faulty(**{kind: ("relu0", "convolution3", "relu5")})
    found, names = find(core, 6)
    assert sorted(names) == ["convolution3", "relu0", "relu5"]
    assert {fault.kind for fault in found.faults} == {"refused"}
    assert found.confirmed
    assert core.compilations == found.compilations <= 8


def test_faults_of_all_kinds_are_found_together() -> None:
    core = faulty(wrong=("relu2",), refused=("convolution3",), unknown=("relu0",))
    found, _ = find(core, 4)
    kinds = [(fault.unit, fault.kind) for fault in found.faults]
    assert kinds == [(1, "refused"), (6, "refused"), (5, "differs")]
    assert found.confirmed


def test_errors_are_those_of_the_operators_themselves() -> None:
    found, _ = find(faulty(wrong=("convolution1", "relu3")), 4)
    assert [fault.error for fault in found.faults] == pytest.approx([0.01, 0.01], rel=1e-3)
    assert found.alone is not None
    assert found.alone.error == pytest.approx(1.01**2 - 1.0, rel=1e-3)


def test_a_refusal_that_names_no_operator_is_bisected() -> None:
    core = faulty(refused=("relu1", "convolution3"), silent=True)
    found, names = find(core, 4)
    assert sorted(names) == ["convolution3", "relu1"]
    assert found.confirmed
    assert core.compilations == found.compilations <= MAX_COMPILATIONS


def test_a_fault_of_neighbours_together_is_found_by_placement() -> None:
    found, names = find(faulty(together=("convolution2", "relu2")), 4)
    assert names == ["relu2"]
    assert found.confirmed


def test_rounding_that_adds_up_is_blamed_on_no_operator() -> None:
    core = faulty(
        wrong=[f"{kind}{layer}" for kind in ("convolution", "relu") for layer in range(4)]
    )
    backend = build_backend(make_chain(4), core, tolerance=0.03)
    found = FaultFinder(backend, 1).find()
    assert found.alone is not None
    assert found.alone.error == pytest.approx(1.01**8 - 1.0, rel=1e-3)
    assert (found.faults, found.confirmed, found.adds_up) == ([], False, True)


def test_no_more_compilations_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placement_gym.deployment.faults.MAX_COMPILATIONS", 6)
    core = faulty(refused=("relu2", "convolution5"), silent=True)
    found, _ = find(core, 8)
    assert not found.confirmed
    assert core.compilations == found.compilations <= 6


def test_the_first_exact_cpu_is_the_reference() -> None:
    fast = DeviceSpec("CPU_FAST", plugin="CPU", precision="bf16")
    assert choose_reference((fast, TESTBED[0])) == (TESTBED[0], [fast])
    assert choose_reference((DeviceSpec("NPU"),)) == (DeviceSpec("CPU"), [DeviceSpec("NPU")])
    with pytest.raises(UserError, match="name a device to check"):
        choose_reference((DeviceSpec("CPU"),))


def test_constraints_that_check_writes_make_the_plan_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = ["gate", "stem/conv"]
    monkeypatch.setattr(
        check_module, "build_measured_backend", lambda spec, *_, **__: build_backend(
            spec.model, faulty(wrong=wrong)
        )
    )  # fmt: skip
    document = check("tiny", "cpu-testbed", out=tmp_path, quiet=True)
    (row,) = document["devices"]
    assert sorted(one["name"] for one in row["operators"]) == wrong
    assert row["confirmed"]
    assert row["kept_off_ms"] > row["alone_ms"] > 0
    assert Constraints.parse(document["file"]).keep_off[FAULTY] == ["stem/conv", "gate"]
    backend = build_backend("tiny", faulty(wrong=wrong))
    problem = Constraints.parse(document["file"]).apply(backend.problem)
    placed = problem.move_unsupported(problem.single(1))
    assert set(placed) == {0, 1}
    assert (
        backend.output_error(placed) <= backend.tolerance < backend.output_error(problem.single(1))
    )


def test_constraints_that_cannot_be_written_do_not_hide_the_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"name": FAULTY, "skipped": "", "operators": [{"name": "gate"}], "confirmed": True}
    monkeypatch.setattr(check_module, "check_device", lambda backend: row)
    monkeypatch.setattr(
        check_module,
        "build_measured_backend",
        lambda spec, *_, **__: build_backend(spec.model, faulty()),
    )
    with full_disk():
        words = ["check", "-m", "tiny", "-d", "cpu-testbed", "--out", str(tmp_path)]
        assert main([*words, "--json", "--quiet"]) == 2
    printed, said = capsys.readouterr()
    document = json.loads(printed)
    assert (document["devices"], document["file"]) == ([row], None)
    assert "these results are not saved: cannot write" in said
    assert not list(tmp_path.iterdir())


def test_the_command_prints_one_document_and_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["check", "-m", "tiny", "-d", "cpu-testbed", "--out", str(tmp_path)]
    assert main([*words, "--json", "--quiet"]) == 0
    document = json.loads(capsys.readouterr().out)
    (row,) = document["devices"]
    assert (row["name"], row["reference"], row["operators"]) == (FAULTY, "CPU", [])
    assert row["confirmed"]
    assert row["error"] <= row["tolerance"]
    assert document["file"] is None
    assert not list(tmp_path.iterdir())
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr().out.endswith(" No operator has to be kept off a device.\n")


class RecordingCore(ov.Core):
    """OpenVINO that keeps the models that it compiles."""

    def __init__(self) -> None:
        super().__init__()
        self.models: list[ov.Model] = []

    def compile_model(self, model: Any, *rest: Any) -> ov.CompiledModel:
        self.models.append(model)
        return super().compile_model(model, *rest)


RULES = """
keep_off: {CPU_FAST: ["type:Softmax", gate]}
keep_on: {CPU_FAST: ["layer:left"]}
inputs: CPU
max_submodels: 3
"""


def read_affinities(placement: Placement) -> tuple[dict[str, str], int]:
    """Node -> device, and the number of submodels, of a placement that is compiled."""
    core = RecordingCore()
    compiled = placement_gym.compile_model(core, placement_gym.load_model("tiny"), placement)
    on = {
        node.get_friendly_name(): node.get_rt_info()["affinity"].astype(str).split("_ALIAS")[0]
        for node in core.models[-1].get_ops()
    }
    return on, compiled.get_property("HETERO_NUMBER_OF_SUBMODELS")


def check_affinities(placement: Placement) -> None:
    on, n_submodels = read_affinities(placement)
    expected = {"scores": "CPU", "gate": "CPU", "stem/conv": "CPU"}
    expected |= dict.fromkeys(("left/conv", "left/add"), FAULTY)
    assert {name: on[name] for name in expected} == expected
    assert n_submodels <= 3


def test_a_compiled_placement_has_the_affinities_that_rules_state(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    env = make("tiny", granularity="op", constraints=str(rules))
    found = search(env.problem, env.backend.rough_costs, evaluations=5)
    check_affinities(Placement.from_assignment(env.problem, found.assignment))


@pytest.mark.slow
def test_a_plan_respects_rules_and_says_why_devices_alone_do_not(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    document = placement_gym.plan(
        "tiny",
        TESTBED,
        granularity="op",
        out=tmp_path,
        constraints=tmp_path / "rules.yaml",
        quiet=True,
    )
    check_affinities(Placement.load(document["file"]))
    alone = [row["error"] for row in document["rows"] if row["alone"]]
    assert len(alone) == 2
    assert all("a constraint keeps unit" in error for error in alone)
