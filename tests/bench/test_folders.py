"""Folders of results are listed with their study and what they lack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from studies import read_rows, study, write_rows

from placement_gym.bench.folders import ResultFolder, find_folders
from placement_gym.bench.study.runner import STUDY, run_study
from placement_gym.bench.study.spec import Study
from placement_gym.cli.main import main

ROOT = Path(__file__).parent.parent.parent
SMALL = study(about="Small <one>", models=["tiny"], seeds=2, published={"a": {"tiny": 1.0}})


def test_folders_are_listed_with_what_they_lack_and_link_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_study(SMALL, tmp_path / "deep" / "a b", "serial", quiet=True)
    write_rows(tmp_path / "deep" / "a b", read_rows(tmp_path / "deep" / "a b")[:4])
    (tmp_path / "deep" / "a b" / "report.html").touch()
    assert main(["bench", "list", str(tmp_path), "--page", "--json"]) == 0
    (folder,) = json.loads(capsys.readouterr().out)["folders"]
    kept = {name: folder[name] for name in ("study", "rows", "missing", "problems", "failed")}
    assert kept == {"study": SMALL.about, "rows": 4, "missing": 2, "problems": 1, "failed": 0}
    page = (tmp_path / "index.html").read_text()
    assert '<a href="deep/a%20b/report.html">deep/a b</a>' in page
    assert "Small &lt;one&gt;" in page


def test_a_folder_keeps_its_study(tmp_path: Path) -> None:
    run_study(SMALL, tmp_path, "serial", quiet=True)
    kept = Study.load(tmp_path / STUDY)
    assert [task.key for task in kept.tasks()] == [task.key for task in SMALL.tasks()]
    assert (kept.about, kept.published) == (SMALL.about, SMALL.published)


@pytest.mark.slow
def test_published_rows_are_known_by_the_studies_of_the_package() -> None:
    (path,) = find_folders(ROOT / "docs" / "results" / "paper")
    folder = ResultFolder.load(path)
    assert folder.study == Study.load("paper")
    assert folder.missing == 0
