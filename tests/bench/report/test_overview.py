# White-box tests of bench.report
"""The overview of a report: score references, roles, trivial problems, and agents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from studies import REPORTED, leave_out_pictures, read_rows, write_rows

from placement_gym.bench import BestKnown, load_values
from placement_gym.bench.report import KnownLatencies, StudyResults, report_study, stats
from placement_gym.bench.report.study import choose_floor, note_other_versions, summarize_agents
from placement_gym.version import VERSION

ROLES = {"validation": ["tiny"]}


@pytest.fixture(scope="module", autouse=True)
def quick_reports() -> Iterator[None]:
    """Few resamples, and pictures that are made but neither drawn nor put on pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats, "RESAMPLES", 100)
        leave_out_pictures(patch)
        yield


Known = Callable[[str], BestKnown]


@pytest.fixture
def known_of(folder: Path, known_script: ModuleType, values: Path) -> Known:
    """The value of a model that the results of the folder make."""
    list(known_script.update_values(folder))
    return lambda model: next(one for one in load_values(values) if one.problem[2] == model)


def line_of(text: str, name: str) -> list[str]:
    (line,) = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", text, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


def test_scores_are_relative_to_the_best_known_value(
    folder: Path, tmp_path: Path, known_of: Known, known_script: ModuleType
) -> None:
    value = known_of("tiny")
    before = StudyResults.load(folder).scores("annealing")
    halved = replace(value, latency_ms=value.latency_ms / 2, bound_ms=value.bound_ms / 4)
    known_script.replace_value(halved)
    after = StudyResults.load(folder)
    at = after.problems.index(next(p for p in after.problems if '"tiny"' in p))
    np.testing.assert_allclose(after.scores("annealing")[:, at], before[:, at] / 2)
    text = report_study(REPORTED, write_rows(tmp_path, read_rows(folder))).read_text()
    overview = text.split("## Problems")[1]
    assert line_of(overview, "tiny")[1:4] == [
        f"{value.latency_ms / 2:.6g}", value.origin, "0.500",
    ]  # fmt: skip


def test_a_better_placement_of_the_study_is_called_new(
    folder: Path, tmp_path: Path, known_of: Known, known_script: ModuleType, values: Path
) -> None:
    value = known_of("tiny")
    old = replace(value, latency_ms=value.latency_ms * 2, bound_ms=value.bound_ms / 2)
    known_script.replace_value(old)
    text = report_study(REPORTED, write_rows(tmp_path, read_rows(folder))).read_text()
    cells = line_of(text.split("## Problems")[1], "tiny")
    assert cells[1] == f"{value.latency_ms:.6g}"
    assert cells[2].startswith("new in this study: ")
    assert "50 % below" in cells[2]
    assert old in load_values(values)  # a report changes no value


def test_a_trivial_problem_is_listed_and_in_no_average(
    folder: Path, tmp_path: Path, known_of: Known, known_script: ModuleType
) -> None:
    value = known_of("tiny")
    alone = replace(value, best_single_ms=value.latency_ms)
    known_script.replace_value(alone)
    text = report_study(REPORTED, write_rows(tmp_path, read_rows(folder))).read_text()
    assert line_of(text.split("## Problems")[1], "tiny")[-1] == (
        "no: trivial, one device is as fast"
    )
    assert "Trivial: one device is as fast" in text.split("\n## tiny")[1].split("\n## ")[0]
    averaged = text.split("## Problems")[0]
    assert line_of(averaged, "annealing")[5] == "0 of 3"  # three runs on resnet alone


def test_a_study_of_trivial_problems_has_nothing_to_average(
    folder: Path, tmp_path: Path, known_of: Known, known_script: ModuleType
) -> None:
    for model in ("tiny", "resnet"):
        value = known_of(model)
        known_script.replace_value(replace(value, best_single_ms=value.latency_ms))
    text = report_study(REPORTED, write_rows(tmp_path, read_rows(folder))).read_text()
    assert "Nothing to average" in text
    assert "scores.png" not in text


def test_agents_are_averaged_over_the_problems_of_each_role(folder: Path, tmp_path: Path) -> None:
    study = replace(REPORTED, roles=ROLES)
    text = report_study(study, write_rows(tmp_path, read_rows(folder))).read_text()
    test, validation = text.split("## All validation problems")
    assert "## All test problems" in test
    for part in (test, validation.split("## Problems")[0]):
        assert line_of(part, "annealing")[5] == "0 of 3"
    assert (
        line_of(test, "random-blocks")[:2]
        != line_of(validation.split("## Pro")[0], "random-blocks")[:2]
    )
    assert "Settings are chosen on the validation problems, tiny." in text


def test_a_study_without_validation_problems_says_so(folder: Path, tmp_path: Path) -> None:
    text = report_study(REPORTED, write_rows(tmp_path, read_rows(folder))).read_text()
    assert "names no validation problem" in text
    everything = replace(REPORTED, roles={"validation": ["tiny", "resnet"]})
    assert "no test problem" in report_study(everything, tmp_path).read_text()


def test_mean_and_interquartile_mean_stand_side_by_side(folder: Path, tmp_path: Path) -> None:
    results = StudyResults.load(folder)
    table = summarize_agents(results)
    header, _, *lines = (
        [cell.strip() for cell in line.split("|")[1:]] for line in table.split("\n")
    )
    assert header[:5] == ["agent", "mean", "IQM", "greedy mean", "greedy IQM"]
    cells = {line[0]: line for line in lines}
    medians = np.median(results.scores("annealing"), axis=0)
    assert cells["annealing"][1] == f"{medians.mean():.3f}"
    assert cells["failing_agent:make"][1:3] == ["0.000", "-"]
    means = [float(line[1]) for line in lines]
    assert means == sorted(means, reverse=True)


def test_the_floor_is_the_best_agent_without_learning(folder: Path) -> None:
    results = StudyResults.load(folder)
    assert choose_floor(results) == max(
        ("random-blocks", "annealing"), key=lambda agent: results.means[agent, "latency_ms"]
    )
    learned = StudyResults([row for row in results.rows if row["agent"] == "single-device"])
    assert choose_floor(learned) is None


def test_scores_elsewhere_use_the_best_known_value_there() -> None:
    row = {"problem": "p", "label": "a", "seed": 0, "latency_ms": 2.0, "scored_ms": 6.0}
    for known_ms, score in ((3.0, 0.5), (9.0, 1.0)):
        results = StudyResults([row], {"p": KnownLatencies(elsewhere_ms=known_ms)})
        assert results.scores("a", "scored_ms").tolist() == [[score]]


def test_a_report_says_which_other_version_made_its_rows() -> None:
    rows = [{"version": version} for version in ("0.1.0", VERSION)]
    assert "carry version 0.1.0" in note_other_versions(rows)[0]
    assert note_other_versions(rows[1:]) == []
