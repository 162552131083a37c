"""Sweeps: which properties are tried, and which become the plan's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from fakes import CPU_GPU, FakeBackend, diamond_problem
from testbed import backend, known_model

from placement_gym import CostTable, DeviceSpec
from placement_gym.backends.measured.measuring import MeasuringBackend
from placement_gym.backends.measured.timing_protocol import QUICK
from placement_gym.backends.protocol import Measurement
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError
from placement_gym.cli.tables import sweep_lines
from placement_gym.deployment.candidates import Candidate
from placement_gym.deployment.compile import compile_model
from placement_gym.deployment.plan import plan
from placement_gym.deployment.plan_rows import make_rows
from placement_gym.deployment.selection import Selection
from placement_gym.deployment.sweep import Sweep, compare, find_winner, state_verdict, sweep
from placement_gym.deployment.sweep_variants import Abilities, list_changes
from placement_gym.problem.placement import Placement
from placement_gym.problem.problem import Problem

ALL = Abilities(
    frozenset(
        ("INFERENCE_PRECISION_HINT", "INFERENCE_NUM_THREADS", "NUM_STREAMS", "PERFORMANCE_HINT")
    ),
    frozenset(("FP32", "FP16")),
)
NONE = Abilities(frozenset(), frozenset())
GPU_LIKE = Abilities(ALL.settable - {"INFERENCE_NUM_THREADS"}, ALL.capabilities)
ALONE, SPLIT = np.array([1, 1, 1, 1]), np.array([0, 1, 1, 1])
CANDIDATES = [Candidate("GPU alone", ALONE, 10.0), Candidate("milp", SPLIT, 8.0)]


def sweep_with(abilities: list[Abilities], made: MeasuringBackend, found: Selection) -> Sweep:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("placement_gym.deployment.sweep.read_abilities", lambda _: abilities)
        return sweep(made, found, quiet=True)


def changes(spec: DeviceSpec, abilities: Abilities, streams: bool = False) -> list[str]:
    return [name for name, _ in list_changes(spec, abilities, streams)]


def test_only_what_a_device_can_do_and_does_not_state_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("deployment.sweep_variants", "backends.measured.throughput"):
        monkeypatch.setattr(f"placement_gym.{module}.usable_cores", lambda: 8)
    cpu, gpu = CPU_GPU
    assert changes(cpu, ALL) == ["f16", "threads 4", "threads 2"]
    assert changes(replace(cpu, threads=2, precision="bf16"), ALL) == []
    assert changes(cpu, replace(ALL, settable=frozenset({"NUM_STREAMS"})), streams=True) == [
        "streams 2", "streams 4", "streams 8",
    ]  # fmt: skip
    assert changes(gpu, GPU_LIKE) == ["f16", "hint LATENCY", "hint THROUGHPUT"]
    stated = replace(gpu, properties={"PERFORMANCE_HINT": "LATENCY"})
    assert changes(stated, GPU_LIKE) == ["f16"]
    assert changes(gpu, NONE) == []


class SweptBackend(FakeBackend):
    """Devices whose settings change what a placement costs.

    Args:
        factors: What a device's ``f16`` or hint does to the latency.
        refused: Precisions whose outputs differ too much.
        again: Factor of latencies that are measured without rivals.
    """

    protocol = QUICK

    def __init__(
        self,
        problem: Problem,
        factors: Mapping[str, float],
        refused: Sequence[str] = (),
        again: float = 1.0,
    ) -> None:
        super().__init__(self.ms, problem)
        self.factors, self.refused, self.again = factors, refused, again

    def with_problem(self, problem: Problem) -> SweptBackend:
        return SweptBackend(problem, self.factors, self.refused, self.again)

    def settings(self, assignment: IntArray) -> set[str]:
        used = [self.problem.devices[device] for device in set(assignment.tolist())]
        hints = {str(one.properties["PERFORMANCE_HINT"]) for one in used if one.properties}
        return hints | {one.precision for one in used}

    def ms(self, assignment: IntArray) -> float:
        alone = len({self.problem.device_names[device] for device in assignment}) == 1
        factor = np.prod([self.factors.get(one, 1.0) for one in self.settings(assignment)])
        return (10.0 if alone else 8.0) * float(factor)

    def answer(self, assignment: IntArray) -> Measurement:
        if self.settings(assignment) & set(self.refused):
            return Measurement.failed("outputs differ from the reference by 3e-3", 10.0)
        return replace(super().answer(assignment), noise=0.01)

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        if any(self.settings(one) & set(self.refused) for one in assignments):
            raise RuntimeError("outputs differ from the reference")
        first, *others = super().remeasure(assignments)
        if len(others) <= 2:
            others = [replace(one, latency_ms=one.latency_ms * self.again) for one in others]
        return [first, *others]


def planned(
    factors: Mapping[str, float], refused: Sequence[str] = (), again: float = 1.0
) -> tuple[SweptBackend, Selection]:
    """A split that won, and the backend that measured it."""
    backend = SweptBackend(diamond_problem(), factors, refused, again)
    measured = {one.label: backend.answer(one.assignment) for one in CANDIDATES}
    rows = make_rows(CANDIDATES, measured, {})
    return backend, Selection(CANDIDATES, None, measured, rows, CANDIDATES[1])


def test_a_property_that_wins_becomes_the_plans() -> None:
    backend, found = planned({"f16": 0.5})
    tried = sweep_with([NONE, GPU_LIKE], backend, found)
    assert tried.verdict == "milp, f16: 2.00 ±0.04 x milp."
    assert [row["label"] for row in tried.rows[:2]] == ["milp, f16", "GPU alone, f16"]
    problem, chosen = tried.apply(backend.problem, found)
    assert [one.precision for one in problem.devices] == ["f32", "f16"]
    assert chosen.chosen is CANDIDATES[1]
    assert chosen.result.latency_ms == 4.0
    placement = Placement.of(problem, chosen.chosen.assignment)
    assert placement.devices[1].compile_properties() == {"INFERENCE_PRECISION_HINT": "f16"}
    assert tried.describe(problem).startswith("Saved: a split, 1 of 4 units on CPU, with f16; ")


def test_a_single_device_with_a_property_may_beat_the_split() -> None:
    backend, found = planned({"THROUGHPUT": 0.5})
    found = replace(found, candidates=CANDIDATES[:1], rows=found.rows[1:], chosen=CANDIDATES[0])
    tried = sweep_with([NONE, GPU_LIKE], backend, found)
    problem, _ = tried.apply(backend.problem, found)
    assert problem.devices[1].properties == {"PERFORMANCE_HINT": "THROUGHPUT"}


@pytest.mark.parametrize(
    ("alone_ms", "verdict"),
    [
        (4.02, "GPU alone, f16: 1.99 ±0.04 x milp."),
        (7.9, "milp, f16: 2.00 ±0.04 x milp."),
        (3.0, "GPU alone, f16: 2.67 ±0.05 x milp."),
    ],
)
def test_a_split_has_to_beat_a_single_device_with_the_property(
    monkeypatch: pytest.MonkeyPatch, alone_ms: float, verdict: str
) -> None:
    original_ms = SweptBackend.ms

    def ms(self: SweptBackend, assignment: IntArray) -> float:
        alone = len(set(assignment.tolist())) == 1 and "f16" in self.settings(assignment)
        return alone_ms if alone else original_ms(self, assignment)

    monkeypatch.setattr(SweptBackend, "ms", ms)
    backend, found = planned({"f16": 0.5})
    tried = sweep_with([NONE, GPU_LIKE], backend, found)
    assert tried.verdict == verdict
    assert tried.winner is not None
    assert verdict.startswith(tried.winner.candidate.label)
    assert tried.rows[0]["label"] == tried.winner.candidate.label
    assert tried.measured is not None
    assert tried.measured.latency_ms == tried.rows[0]["measured_ms"]


def test_a_split_that_one_device_equals_is_not_saved() -> None:
    """The device itself does not beat the plan for certain."""
    plan = CANDIDATES[1]
    split = replace(plan, label="milp, f16")
    single = replace(CANDIDATES[0], label="GPU alone, f16")
    times_ms = {"milp": 8.0, "milp, f16": 7.84, "GPU alone, f16": 7.92}
    measured = {label: Measurement(ms, 10.0, noise=0.01) for label, ms in times_ms.items()}
    assert find_winner(plan, [split], measured) is split
    assert find_winner(plan, [split, single], measured) is None
    verdict = state_verdict(compare(plan, [split, single], measured), plan, single.label)
    assert verdict == "milp, f16 is 1.02 ±0.02 x milp, but GPU alone, f16 equals it within noise."


@pytest.mark.parametrize(
    ("factors", "again"),
    [({"f16": 0.985}, 1.0), ({"f16": 0.5}, 2.0), ({"f16": 0.5, "THROUGHPUT": 0.6}, 2.0)],
)
def test_without_a_win_beyond_the_noise_nothing_changes(
    factors: dict[str, float], again: float
) -> None:
    backend, found = planned(factors, again=again)
    tried = sweep_with([NONE, GPU_LIKE], backend, found)
    assert "No property beats milp beyond the noise; the best, milp, f16, is 1.0" in tried.verdict
    assert tried.apply(backend.problem, found) == (backend.problem, found)
    assert tried.describe(backend.problem) == ""


def test_a_precision_beyond_the_tolerance_is_an_error_and_said() -> None:
    backend, found = planned({"f16": 0.5}, refused=["f16"])
    tried = sweep_with([NONE, GPU_LIKE], backend, found)
    failed = [row for row in tried.rows if row["error"]]
    assert [row["label"] for row in failed] == ["milp, f16", "GPU alone, f16"]
    assert "outputs differ" in failed[0]["error"]
    assert tried.winner is None
    shown = sweep_lines(tried.report(1e-4))
    assert "No property beats milp" in str(shown[-1])


def test_where_nothing_can_be_set_nothing_is_measured() -> None:
    backend, found = planned({})
    tried = sweep_with([NONE, NONE], backend, found)
    assert tried.verdict == "The best candidates leave no property to try."
    assert not backend.calls_of("remeasure")


def test_two_placements_are_not_swept(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leave the sweep or phases out"):
        plan("gpt", "cpu-testbed", out=tmp_path, phases=True, sweep=True)


def test_the_engine_races_devices_that_differ_by_a_property(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("placement_gym.deployment.sweep_variants.usable_cores", lambda: 2)
    made = backend(ov.Core(), "tiny", final_compiles=2)
    alone = Candidate("CPU_FAST alone", made.problem.single(1), 1.0)
    first = Candidate("CPU alone", made.problem.single(0), 2.0)
    measured = dict(
        zip(
            ("CPU_FAST alone", "CPU alone"),
            made.remeasure([alone.assignment, first.assignment]),
            strict=True,
        )
    )
    found = Selection(
        [alone, first], None, measured, make_rows([alone, first], measured, {}), alone
    )
    threads = Abilities(frozenset({"INFERENCE_NUM_THREADS"}), frozenset())
    tried = sweep_with([NONE, threads], made, found)
    (row,) = tried.rows
    assert (row["label"], row["error"]) == ("CPU_FAST alone, threads 1", "")
    assert row["measured_ms"] > 0


@pytest.mark.slow
def test_a_plan_races_properties_and_compiles_with_them(tmp_path: Path) -> None:
    document = plan("tiny", "cpu-testbed", granularity="op", out=tmp_path, quiet=True, sweep=True)
    swept = document["sweep"]
    assert swept["tolerance"] == 1e-4
    # Processors that are fast in lower precisions try these too, which the tolerance may refuse.
    of_f32 = [row for row in swept["rows"] if not row["label"].endswith((", f16", ", bf16"))]
    assert all(row["measured_ms"] for row in of_f32)
    placement = Placement.load(document["file"])
    compiled = compile_model(ov.Core(), known_model("tiny"), placement)
    settings = {device.name: device.threads for device in placement.devices}
    if swept["plan"]:
        assert swept["plan"].endswith(f"threads {settings['CPU_FAST']}")
    assert set(compiled.get_property("EXECUTION_DEVICES")) <= {*settings, "CPU_ALIAS1"}


@pytest.mark.slow
def test_an_interrupted_sweep_leaves_the_plan(
    tmp_path: Path, tiny_profile: CostTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("placement_gym.deployment.plan.sweep_properties", interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"plan-tiny\.json is the plan without the sweep"):
        plan("tiny", "cpu-testbed", granularity="op", out=tmp_path / "out", quiet=True, sweep=True)
    assert Placement.load(tmp_path / "out" / "plan-tiny.json").model == "tiny"
