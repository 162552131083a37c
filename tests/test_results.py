# White-box tests of bench.study
"""Pages of results say what their rows say, of which version these are, and name today's agents."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from agents import AGENTS
from placement_gym.base import explain_removal
from placement_gym.bench.run import AgentSpec, read_runs
from placement_gym.bench.study import Study, check_rows, describe_older, read_columns, validate
from placement_gym.bench.study.row_checks import OF_STUDIES, find_missing_columns
from placement_gym.problem import parse_assignment
from placement_gym.version import VERSION

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
FILES = sorted(file for file in RESULTS.rglob("*.jsonl*"))
OF_STUDIES_FILES = [
    file for file in FILES if any(row.keys() >= OF_STUDIES for row in read_columns(file))
]
WRITTEN = {"paper/report.md"}
"""The page that a command writes, with version and commit in it."""
MIXED = {"online.md", "published.md", "throughput.md"}
"""Pages whose rows are of several versions, as their last section says."""
OF_SB3 = {"ppo"}
"""Arms of tables that are SB3's own, with its own policy."""
DEVIATION = re.compile(r"greedy_speedup was (\S+) and is now \1")
"""Of rows of 0.2.0, by 5e-7: they keep no greedy placement that could be evaluated again."""
PROGRAMS = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AGENT_TABLE = re.compile(r"^\| agent \|.*\n\|[ :|-]+\n((?:\|.*\n)+)", re.MULTILINE)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sys.modules.pop("common", None)
    import figures

    return figures


@pytest.fixture
def pages(figures: ModuleType) -> ModuleType:
    return sys.modules["all"]


def test_figures_in_documents_follow_from_their_rows(figures: ModuleType) -> None:
    for document in figures.DOCUMENTS:
        text = document.read_text()
        assert figures.fill(text) == text, f"{document.name}: run `python benchmarks/figures.py`"


def test_sentences_say_what_rows_say(figures: ModuleType) -> None:
    claims: Any = import_module("claims")
    for claim in claims.CLAIMS:
        text = " ".join((RESULTS / claim.page).read_text().split())
        assert claim.text.format(*claim.compute()) in text, claim.page


@pytest.mark.parametrize("n_blocks", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_programs_of_stock_algorithms_run(n_blocks: int) -> None:
    programs = PROGRAMS.findall((RESULTS / "learning.md").read_text())
    assert len(programs) == 4
    code = "".join(programs[:n_blocks]).replace('"inception"', '"resnet"')
    names: dict[str, Any] = {}
    exec(re.sub(r"learn\([\d_]+\)", "learn(40)", code), names)
    assert names["model"].num_timesteps == 40


def test_a_policy_plays_as_it_learns(figures: ModuleType) -> None:
    row = figures.stock.learn(
        figures.stock.Training("A2C", 80, {"gamma": 1.0}), "tiny", {"devices": "cpu+igpu"}, 0
    )
    assert [steps for steps, _ in row["greedy"]] == [0, 80]
    assert row["evaluations"] == 8  # episodes of seven units, in eight environments
    assert row["single_ms"] / row["latency_ms"] >= row["greedy"][0][1] or row["error"] == ""


def test_trainings_that_play_all_problems_are_drawn_together(figures: ModuleType) -> None:
    find_interval = sys.modules["summaries"].find_interval_over_problems
    runs = [[0.0, 1.0]] * 100
    apart, together = find_interval(runs), find_interval(runs, together=True)
    assert 0.4 < apart[0] < 0.5 < apart[1] < 0.6
    assert together == (0.0, 1.0)
    assert find_interval(runs, runs)[0] < 0.0 < find_interval(runs, runs)[1]
    assert find_interval([[2.0], [2.0, 2.0]], [[1.0, 1.0], [1.0]]) == (1.0, 1.0)


def test_no_line_of_a_paragraph_begins_with_a_comment(figures: ModuleType) -> None:
    for document in figures.DOCUMENTS:
        begins = re.findall(r"^<!-- figure: .*", document.read_text(), re.MULTILINE)
        assert not [line for line in begins if not line.endswith("-->")], document


def test_a_table_without_lines_is_a_sentence(
    figures: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "load_rows", lambda path: ({"key": "", "error": ""},))
    assert figures.compute("engine undecided measured-rows.jsonl") == "\n\nNo undecided.\n\n"
    assert figures.compute("planned").endswith("1 were planned and exported, none refused.")


def test_the_last_section_of_a_page_says_the_version_of_its_rows(pages: ModuleType) -> None:
    for page in pages.PAGES.keys() - WRITTEN:
        _, _, section = (RESULTS / page).read_text().rpartition("\n## ")
        assert section.startswith("How this was measured\n"), page
        assert f"\nRows: <!-- figure: rows {page} -->" in section, page


def test_rows_of_a_page_are_of_one_version(pages: ModuleType) -> None:
    mixed = {page for page in pages.PAGES if len(pages.find_origins(page)[0]) > 1}
    assert mixed <= MIXED


def test_every_file_of_rows_belongs_to_a_page(pages: ModuleType) -> None:
    listed = {file for about in pages.PAGES.values() for file in (*about.rows, *about.kept)}
    assert {str(file.relative_to(RESULTS)) for file in FILES} == listed


def test_rows_of_earlier_releases_stay() -> None:
    rows = read_columns(RESULTS / "releases.jsonl.xz")
    assert {row["version"] for row in rows} >= {"0.1.0", "0.2.0"}


def test_tables_of_agents_name_those_that_can_be_made(pages: ModuleType) -> None:
    for document in RESULTS.rglob("*.md"):
        text = document.read_text()
        for row in "".join(AGENT_TABLE.findall(text)).splitlines():
            cell = row.split("|")[1]
            name = re.split(r"[ ,(]", cell.strip(" `*").replace("`", ""))[0]
            is_name = cell.strip().startswith("`") or explain_removal("agent", name)
            assert name in {*AGENTS, *OF_SB3} or not is_name, f"{document.name}: {cell}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_file_of_rows_is_read_and_its_schema_said(file: Path) -> None:
    rows = [*read_columns(file)]
    assert rows
    assert not [row for row in rows if str(row.get("env_kwargs", {}).get("model")).startswith("/")]
    older = describe_older(file)
    assert not older or re.match(
        rf"\d+ of {len(rows)} rows are of an older schema: \d+ have", older
    )
    if file in OF_STUDIES_FILES:
        assert read_runs(file)[1] == []
    else:
        assert [*validate(file)] == []


def test_rows_of_this_release_lack_no_column(pages: ModuleType) -> None:
    for page in pages.PAGES.keys() - {"online.md"}:  # a row of it has several arms
        for file in pages.PAGES[page].rows:
            rows = [row for row in read_columns(RESULTS / file) if row.get("version") == VERSION]
            assert not [row for row in rows if find_missing_columns(row)], file


def measured_row(label: str, model: str, speedup: float, **changes: Any) -> dict[str, Any]:
    """A row of the study ``measured`` on two devices, seed 0."""
    tables: Any = import_module("measured_tables")
    (key,) = (
        task.key
        for task in Study.load("measured").tasks()
        if (task.model, task.devices, task.seed) == (model, tables.TWO, 0)
        and tables.list_labels()[task.key] == label
    )
    facts = {"key": key, "model": model, "devices": [{}, {}], "seed": 0, "evaluations": 1}
    decided = {"error": "", "warning": "", "beats_best_single": "yes", "wall_s": 60.0}
    return facts | decided | {"speedup_vs_best_single": speedup} | changes


def test_scores_of_measured_agents_are_over_the_models_that_all_ran_on(
    figures: ModuleType,
) -> None:
    tables: Any = import_module("measured_tables")
    rows = [
        measured_row("search", "resnet", 1.5),
        measured_row("ppo", "resnet", 1.2),
        measured_row("ppo", "gpt", 9.0),
    ]
    lines = tables.list_agents(rows, tables.TWO)
    assert [(line["agent"], line["IQM"]) for line in lines] == [
        ("`search`", "1.50"),
        ("`ppo`", "1.20"),
    ]
    assert lines[1]["GPT"] == "9.00"


def test_minutes_count_the_profile_of_an_agent_that_uses_one(figures: ModuleType) -> None:
    tables: Any = import_module("measured_tables")
    rows = [measured_row("search", "resnet", 1.5), measured_row("openvino-auto", "resnet", 1.0)]
    lines = tables.list_agents(rows, tables.TWO)
    minutes = {line["agent"]: line["minutes"] for line in lines}
    assert minutes == {"`search`": "1.2", "`openvino-auto`": "1.0"}  # the profile took 11 s


def test_a_measured_run_that_decides_nothing_is_listed_and_not_averaged(
    figures: ModuleType,
) -> None:
    tables: Any = import_module("measured_tables")
    busy = {"warning": "other programs took 50% of the time", "beats_best_single": "within noise"}
    rows = [measured_row("search", "resnet", 1.5), measured_row("ppo", "resnet", 1.2, **busy)]
    assert [line["agent"] for line in tables.list_agents(rows, tables.TWO)] == ["`search`"]
    (line,) = tables.list_undecided(rows)
    assert (line["agent"], line["why"]) == ("`ppo`", busy["warning"])


def test_a_row_of_a_benchmark_has_all_columns_and_replays(
    figures: ModuleType, tmp_path: Path
) -> None:
    common: Any = import_module("common")

    def run(arm: str) -> Any:
        return common.run_agent(common.make_env("tiny", devices="cpu+igpu"), AgentSpec(arm), 0, 20)

    (row,) = common.run_missing(tmp_path / "rows.jsonl", [{"arm": "random"}], run)
    assert find_missing_columns(row) == ()
    assert row["error"] == ""
    assert common.read_rows(tmp_path / "rows.jsonl")[0]["env_kwargs"]["devices"] == "cpu+igpu"
    env = common.make_env(**row["env_kwargs"])
    found = env.backend.evaluate(parse_assignment(row["placement"], env.problem))
    assert found.latency_ms == row["latency_ms"]
    path = tmp_path / "latency-inputs" / "LayerGraphs" / "bert24_inference.json"
    about = common.describe_kwargs({"model": path})
    assert about["env_kwargs"]["model"] == (
        "${DNN_PARTITIONING}/latency-inputs/LayerGraphs/bert24_inference.json"
    )


def test_a_benchmark_runs_what_its_file_lacks(
    figures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common: Any = import_module("common")
    rows, ran = tmp_path / "rows.jsonl", list[tuple[str, int]]()

    def run(arm: str, seed: int) -> list[dict[str, Any]]:
        ran.append((arm, seed))
        return [{"evaluations": n} for n in (10, 20)]

    def call(*arguments: str) -> list[tuple[str, int]]:
        ran.clear()
        monkeypatch.setattr(sys, "argv", ["benchmark", "first", "--rows", str(rows), *arguments])
        jobs = [*common.combine(arm=["a", "b"], seed=[0, 1])]
        common.run_benchmark("", {"first": (lambda: jobs, run), "second": (list, run)})
        return [*ran]

    assert call("--only", "arm=b", "seed=1") == [("b", 1)]
    assert call() == [("a", 0), ("a", 1), ("b", 0)]
    assert call() == []
    assert len(common.read_rows(rows)) == 8


def test_the_last_evaluation_of_a_learner_is_its_greedy_placement(figures: ModuleType) -> None:
    common: Any = import_module("common")
    env, seen = common.make_env("tiny", devices="cpu+igpu"), list[Any]()

    class Observed(common.Meter):
        def record(self, assignment: Any, *args: Any) -> None:
            seen.append(assignment.copy())
            super().record(assignment, *args)

    model = common.search(env, Observed(env.backend, [21]), AgentSpec("logits"), 0, 21)
    action, _ = model.predict(env.reset(seed=0)[0], deterministic=True)
    assert len(seen) == 21
    np.testing.assert_array_equal(seen[-1], action)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("file", OF_STUDIES_FILES, ids=lambda file: str(file.relative_to(RESULTS)))
def test_published_rows_of_studies_replay(file: Path) -> None:
    rows = [row for row in read_runs(file)[0] if row["env"].startswith("DevicePlacementSim")]
    built_in = [row for row in rows if "/" not in row["env_kwargs"]["model"]]
    replayed = built_in[:: max(len(built_in) // 10, 1)][:10]
    errors = [found.error for found in check_rows(replayed, quiet=True) if found.error]
    assert not [error for error in errors if not DEVIATION.fullmatch(error)]
