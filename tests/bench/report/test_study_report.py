# White-box tests of bench.report
"""Reports of studies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from studies import REPORTED, leave_out_pictures, read_rows, study, write_rows

from placement_gym.base import UserError
from placement_gym.bench.report import (
    KnownLatencies,
    StudyResults,
    problems,
    report_study,
    stats,
)
from placement_gym.bench.report.problems import draw_best_placement
from placement_gym.bench.report.study import list_cautions
from placement_gym.bench.run import BenchEnvs
from placement_gym.bench.study import run_study
from placement_gym.cli import main


@pytest.fixture(scope="module", autouse=True)
def few_resamples() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats, "RESAMPLES", 100)
        yield


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_pictures(monkeypatch)


@pytest.fixture(scope="module")
def report(folder: Path) -> Path:
    return report_study(REPORTED, folder, "a command", quiet=True)


def test_the_markdown_names_everything_and_its_pictures_exist(folder: Path, report: Path) -> None:
    text = report.read_text()
    for expected in (
        "30 of 30 runs",
        "simulated: no claim about a real device",
        "a command",
        "| proven optimum |",
        "proven for 2 of 2 problems",
        "| published: HSDAG | 7.66 |",
    ):
        assert expected in text
    for name in ("min-cut", "random-blocks", "annealing", "single-device"):
        assert f"| {name} |" in text
    assert "| failing_agent:make | 0.000 | - | 0.000 | - | 0.00 | 6 of 6 |" in text
    assert "nothing works today" in text
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert len(pictures) == 5
    assert all((folder / name).stat().st_size > 5000 for name in pictures)
    views = re.findall(r"\[Explore.*?\]\((.*?)\)", text)
    assert views == ["views/problem-0.html", "views/problem-1.html"]
    assert all((folder / view).stat().st_size > 100_000 for view in views)
    assert text.startswith("# Two &lt;models&gt; &amp; some agents\n")


def test_the_answer_and_the_headline_table_come_first(report: Path) -> None:
    text = report.read_text()
    title, answer, *_ = text.split("\n\n")
    assert title.startswith("# ")
    assert "places best (as does" in answer
    assert "mean score 1.000" in answer
    assert "the floor, annealing" in answer or "the floor, random-blocks" in answer
    assert text.index("| min-cut |") < text.index("30 of 30 runs")


def test_a_report_needs_results(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run it first"):
        report_study(REPORTED, tmp_path)


@pytest.mark.usefixtures("no_pictures")
def test_a_partial_study_is_reported_as_such(folder: Path, tmp_path: Path) -> None:
    markdown = report_study(REPORTED, write_rows(tmp_path, read_rows(folder)[:7]))
    assert "7 of 30 runs" in markdown.read_text()


@pytest.mark.usefixtures("no_pictures")
def test_the_commands_report_and_validate(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "study.yaml"
    values = {**vars(REPORTED), "devices": ["hsdag-paper"]}
    file.write_text(json.dumps(values))
    assert main(["bench", "report", str(file), "--out", str(folder)]) == 0
    assert "report.md" in capsys.readouterr().out
    validate = ["bench", "validate"]
    assert main([*validate, "--out", str(folder)]) == 0
    assert "30 of 30 rows are valid" in capsys.readouterr().out
    write_rows(tmp_path, [read_rows(folder)[0] | {"evaluations": 99}])
    assert main([*validate, "--out", str(tmp_path)]) == 1
    assert "exceed" in capsys.readouterr().out


@pytest.mark.usefixtures("no_pictures")
def test_agents_are_called_what_the_study_calls_them(folder: Path, tmp_path: Path) -> None:
    named = replace(REPORTED, agents=[{"name": "annealing", "label": "slow cooling"}])
    write_rows(tmp_path, read_rows(folder))
    markdown = report_study(named, tmp_path)
    assert "| slow cooling |" in markdown.read_text()
    assert "| annealing |" not in markdown.read_text()


def test_a_run_that_reaches_the_bound_proves_the_optimum() -> None:
    known = KnownLatencies(best_single_ms=12.0, optimum_ms=None, bound_ms=10.0)
    assert known.add_proof(10.0 + 1e-9).optimum_ms == pytest.approx(10.0)
    assert known.add_proof(11.0).optimum_ms is None
    assert known.add_proof(float("inf")).optimum_ms is None


@pytest.mark.usefixtures("no_pictures")
def test_infeasible_predictions_are_counted_not_averaged(folder: Path, tmp_path: Path) -> None:
    changed = [
        row | {"greedy_latency_ms": None}
        if row["agent"] == "annealing" and not row["seed"]
        else row
        for row in read_rows(folder)
    ]
    text = report_study(REPORTED, write_rows(tmp_path, changed)).read_text()
    (total,) = re.findall(r"\| annealing \|(?: [^|]*\|){3} ([^|]*) \|", text.split("## tiny")[0])
    assert "(2 of 6 infeasible)" in total
    assert text.count("(1 infeasible)") == 2


@pytest.mark.usefixtures("no_pictures")
def test_a_study_in_which_everything_failed_is_reported(tmp_path: Path) -> None:
    hopeless = replace(REPORTED, agents=["failing_agent:make"], published={})
    run_study(hopeless, tmp_path, "serial", quiet=True)
    text = report_study(hopeless, tmp_path).read_text()
    assert "6 of 6" in text
    assert "nothing works today" in text


def test_a_report_says_who_beats_the_best_single_device(report: Path) -> None:
    text = report.read_text()
    _, tiny, resnet = re.split(r"^## (?=tiny|resnet)", text, flags=re.MULTILINE)
    for part in (tiny, resnet):
        (said,) = re.findall(r"Faster than the best single device: (.*)\.", part)
        assert "min-cut by" in said
        assert "single-device" not in said
        assert re.search(r"^\| min-cut \| .* \| 0\.0 % \| .* \| 3 of 3 \| 0 of 3 \|", part, re.M)


def test_a_report_without_the_model_has_no_picture_of_it(folder: Path, tmp_path: Path) -> None:
    gone = replace(REPORTED, models=["gone.xml"], agents=["min-cut"], published={})
    tasks = {task.seed: task for task in gone.tasks()}
    changed = [
        row
        | {"problem": tasks[row["seed"]].problem}
        | {"env_kwargs": row["env_kwargs"] | {"model": "gone.xml"}}
        for row in read_rows(folder)
        if row["agent"] == "min-cut" and row["model"] == "resnet"
    ]
    text = report_study(gone, write_rows(tmp_path, changed)).read_text()
    assert "3 of 3 runs" in text
    assert "not drawn" in text


@pytest.mark.slow
def test_report_of_a_changed_model_does_not_draw_on_it(folder: Path, tmp_path: Path) -> None:
    changed = [row | {"model_fingerprint": "0"} for row in read_rows(folder)]
    text = report_study(REPORTED, write_rows(tmp_path, changed), quiet=True).read_text()
    assert text.count("not drawn") == 2
    assert "proven for 0 of 2 problems" in text


def test_report_of_an_unknown_environment_is_the_users_error(folder: Path) -> None:
    with pytest.raises(UserError, match="env must be one of"):
        list_cautions(replace(REPORTED, env="Unknown-v0"), StudyResults(read_rows(folder)))


def test_a_placement_that_does_not_fit_its_problem_is_not_drawn(folder: Path) -> None:
    rows = [row | {"placement": {"a": "CPU"}} for row in read_rows(folder)]
    problem, task = rows[0]["problem"], REPORTED.tasks()[0]
    with BenchEnvs() as envs:
        (text,) = draw_best_placement(StudyResults(rows), problem, task, envs, folder)
    assert text.startswith("The placement is not drawn: the placement has 1 units")


def test_link_in_the_place_of_the_views_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("open_runs", "make_view_data"):
        monkeypatch.setattr(problems, name, lambda _: None)
    monkeypatch.setattr(problems, "render_page", lambda _: "a page")
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "results"
    elsewhere.mkdir()
    folder.mkdir()
    (folder / "views").symlink_to(elsewhere)
    problems.write_view([], study().tasks()[0], folder, 0, 4)
    assert not list(elsewhere.iterdir())
    assert (folder / "views" / "problem-0.html").read_text() == "a page"
