"""Plans: what is measured, what is handed over, and what is said about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from fakes import LIMITED, diamond_costs, diamond_problem

from placement_gym.backends.protocol import Measurement
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.cli.main import main
from placement_gym.deploy import compile_model
from placement_gym.models import load
from placement_gym.placement import Placement
from placement_gym.tools.plan import Candidate, candidates, choice, plan, table, verdict

ALONE, SPLIT = np.array([1, 1, 1, 1]), np.array([0, 1, 1, 1])


def rows(
    single_ms: float | None, split_ms: float, noise: float = 0.02, other_ms: float = 20.0
) -> list[dict[str, Any]]:
    """Of a single device, a split, and another single device."""
    found = [
        Candidate("GPU alone", ALONE, 9.0),
        Candidate("milp", SPLIT, 8.0),
        Candidate("CPU alone", 1 - ALONE, 19.0),
    ]
    first_ms = single_ms or other_ms
    measured = {
        "milp": Measurement(split_ms, first_ms, noise=noise, n_submodels=2),
    }
    if single_ms is not None:
        measured["GPU alone"] = Measurement(single_ms, first_ms, n_submodels=1)
        measured["CPU alone"] = Measurement(other_ms, first_ms, n_submodels=1)
    return table(found, measured)


@pytest.mark.parametrize(
    ("single_ms", "split_ms", "noise", "label", "said"),
    [
        (10.0, 8.0, 0.02, "milp", "milp beats the best single device by 25.0 %."),
        (10.0, 9.9, 0.02, "GPU alone", "No split beats GPU alone; milp equals it within noise."),
        (10.0, 12.0, 0.02, "GPU alone", "No split beats GPU alone."),
        (None, 12.0, 0.02, "milp", "No single device holds the model; milp is the fastest split."),
    ],
)
def test_a_split_is_the_plan_only_if_it_wins_beyond_its_noise(
    single_ms: float | None, split_ms: float, noise: float, label: str, said: str
) -> None:
    found = rows(single_ms, split_ms, noise)
    assert choice(found) == label
    assert verdict(found, label) == said


def test_rows_are_relative_to_the_fastest_single_device_and_fastest_first() -> None:
    found = rows(10.0, 8.0)
    assert [row["label"] for row in found] == ["milp", "GPU alone", "CPU alone"]
    assert [row["speedup"] for row in found] == pytest.approx([1.25, 1.0, 0.5])


def test_where_nothing_ran_there_is_no_plan() -> None:
    nothing = table([Candidate("GPU alone", ALONE, 9.0)], {})
    assert nothing[0]["measured_ms"] is None
    with pytest.raises(RuntimeError, match="nothing to hand over"):
        choice(nothing)


def labels(found: Sequence[Candidate]) -> set[str]:
    return {candidate.label for candidate in found}


def test_candidates_are_single_devices_solutions_prefixes_and_windows_without_repetition() -> None:
    twin = SimulatedBackend(diamond_problem(), diamond_costs(diamond_problem()))
    found, bound_ms = candidates(twin, 5.0)
    assert {"CPU alone", "GPU alone"} <= labels(found) <= {
        "CPU alone", "GPU alone", "milp", "prefix", "window",
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
    found, _ = candidates(SimulatedBackend(problem, diamond_costs(problem)), 5.0)
    for candidate in found:
        if not candidate.label.endswith("alone"):
            assert problem.infeasibility(candidate.assignment) == ""


@pytest.mark.parametrize("devices", ["cpu-testbed", "cpu-testbed-limited"])
def test_a_plan_is_a_placement_file_that_compiles(devices: str, tmp_path: Path) -> None:
    document = plan("tiny", devices, out=tmp_path, quiet=True)
    chosen = next(row for row in document["rows"] if row["label"] == document["plan"])
    assert chosen["measured_ms"] is not None
    assert document["verdict"]
    assert document["notes"][0].startswith("test bed")
    assert (tmp_path / "plan-tiny.png").stat().st_size > 1000
    assert json.loads((tmp_path / "plan-tiny-report.json").read_text()) == document
    placement = Placement.load(document["file"])
    compiled = compile_model(ov.Core(), load("tiny"), placement)
    assert compiled.create_infer_request().infer({0: np.zeros(compiled.input(0).shape)})


def test_the_command_prints_the_table_and_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "--model", "tiny", "--devices", "cpu-testbed", "--out", str(tmp_path)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    for word in ("predicted ms", "CPU alone", "CPU_FAST alone", "plan-tiny.json"):
        assert word in printed.replace("\n", "")
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "tiny"


def test_the_noise_of_the_single_device_counts_too() -> None:
    first = Measurement(20.0, 20.0)
    faster = Measurement(10.0, 20.0, noise=0.3)
    split = Measurement(9.9, 20.0, noise=0.005)
    found = table(
        [Candidate("A alone", ALONE, 1.0), Candidate("B alone", 1 - ALONE, 1.0),
         Candidate("milp", SPLIT, 1.0)],
        {"A alone": first, "B alone": faster, "milp": split},
    )  # fmt: skip
    assert choice(found) == "B alone"
