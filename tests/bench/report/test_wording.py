# White-box tests of bench.report
"""Wording of results: gaps and latencies of any scale, remarks, the verdict in one sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from placement_gym.base import format_ms
from placement_gym.bench import compare
from placement_gym.bench.report import KnownLatencies, state_verdict
from placement_gym.bench.report.problems import format_wins
from placement_gym.bench.report.wording import (
    describe_memory_error,
    explain_failure,
    format_gap,
    list_remarks,
    remark_on,
)

SPLIT = {"a": "CPU", "b": "GPU"}
ALONE = {"label": "single-device CPU", "placement": {"a": "CPU"}, "beats_best_single": "no"}


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_gap_is_a_share_and_never_negative_at_any_scale(scale: float) -> None:
    known = KnownLatencies(bound_ms=2.0 * scale)
    assert format_gap(2.5 * scale, known) == "≤ 25.0 %"
    assert format_gap(2.5 * scale, KnownLatencies(optimum_ms=2.0 * scale)) == "25.0 %"
    known = KnownLatencies(bound_ms=scale * (1 + 1e-7))
    assert format_gap(scale, known) == "≤ 0.0 %"
    assert format_gap(scale, known.add_proof(scale)) == "0.0 %"


def test_where_nothing_takes_time_the_latency_is_the_optimum() -> None:
    known = KnownLatencies(bound_ms=0.0)
    assert known.add_proof(0.0).optimum_ms == 0.0
    assert known.add_proof(1e-300).optimum_ms is None
    assert format_gap(0.0, known) == "-"


@pytest.mark.parametrize(
    ("latency_ms", "text"),
    [(10.2, "10.20"), (0.01234567, "0.01235"), (999.97, "1000"), (14783.9, "14784")],
)
def test_a_latency_has_four_digits_and_no_exponent(latency_ms: float, text: str) -> None:
    assert format_ms(latency_ms) == text


def row(label: str, **fields: Any) -> dict[str, Any]:
    return {"label": label, "budget": 100, "evaluations": 100, **fields}


def has(line: str, *words: str) -> bool:
    """Whether all words are in a line."""
    return all(word in line for word in words)


def test_agents_whose_answer_is_their_start_share_a_line() -> None:
    starts = {"gdp": "milp", "post": "milp", "annealing": "GPU alone"}
    shared, own = list_remarks([row(label, start=start) for label, start in starts.items()])
    assert has(shared, "gdp, post: ", "start", "milp's placement")
    assert has(own, "annealing: ", "start", "GPU alone")


def test_shares_of_runs_are_counted() -> None:
    rows = [row("gdp", start="heft"), row("gdp", start=""), row("gdp", start="heft")]
    rows += [row("beam", stopped=True, evaluations=n) for n in (60, 72)]
    stopped, started = list_remarks([*rows, row("beam")])
    assert has(stopped, "beam (2 of 3 runs): stopped", "60 to 72 of 100")
    assert has(started, "gdp (2 of 3 runs): ", "start", "heft's placement")


def test_rows_of_earlier_versions_say_nothing() -> None:
    assert list_remarks([row("gdp"), row("post")]) == []
    assert remark_on(row("gdp")) == ""


def test_a_comparison_says_both(tmp_path: Path) -> None:
    document = compare(
        "tiny",
        [{"name": "annealing", "kwargs": {"start": "quick"}}, "prefix", "heft"],
        env_id="DevicePlacementSim-v0",
        devices="cpu+dgpu",
        budget=20,
        out=tmp_path,
        quiet=True,
    )
    rows = {row["agent"]: row for row in document["rows"]}
    assert (rows["prefix"]["stopped"], rows["prefix"]["evaluations"]) == (True, 12)
    assert (rows["annealing"]["stopped"], rows["heft"]["stopped"]) == (False, False)
    assert rows["annealing"]["start"]
    assert rows["heft"]["start"] == rows["prefix"]["start"] == ""
    table = (tmp_path / "table.md").read_text()
    assert "prefix: stopped after 12 of 20 evaluations" in table
    assert "annealing quick: the answer is its start, " in table


def run(label: str, ratio: float, beats: str = "yes", warning: str = "") -> dict[str, Any]:
    return {
        "label": label,
        "placement": SPLIT,
        "beats_best_single": beats,
        "speedup_vs_best_single": ratio,
        "warning": warning,
    }


BUSY = "the machine was busy"
FAILED = {"label": "window", "placement": None, "beats_best_single": None, "warning": ""}


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([], "No split .* measured."),
        ([run("window", 0.5, "no")], "No split beats [^;]* single device."),
        ([run("window", 1.01, "within noise")], "No split beats .*; window .* within noise."),
        (
            [run("window", 1.25, "within noise", BUSY)],
            f".* not .* decided: {BUSY}. Measure again .*",
        ),
        ([run("window", 1.25)], "Faster .* single device: window by 25.0 %."),
        (
            [run("window", 1.25), run("prefix", 1.3, "within noise", BUSY)],
            "Faster .*: window by 25.0 %.",
        ),
        (
            [run("window", 1.25), run("prefix", 1.5)],
            "Faster .*: prefix by 50.0 %; window by 25.0 %.",
        ),
        ([run("window", 1.2), run("window", 1.4), FAILED], "Faster .*: window by 30.0 %."),
        (
            [run("window", 1.1), run("window", 1.3), run("window", 0.9, "no")],
            "Faster .*: window by 10.0 %.",
        ),
        ([run("window", 1.2), FAILED], "No agent beats .* single device in most .* runs."),
    ],
)
def test_the_verdict_counts_wins_beyond_the_noise_in_most_runs(
    rows: list[dict[str, Any]], verdict: str
) -> None:
    assert re.fullmatch(verdict, state_verdict([ALONE, *rows]))


def test_without_a_single_device_the_fastest_split_is_named() -> None:
    rows = [run("window", 5.0), run("prefix", 7.0)]
    verdict = state_verdict(rows, one_device_holds_the_model=False)
    assert has(verdict, "No single device", "prefix is the fastest")


def test_report_counts_doubtful_runs_and_names_a_reason() -> None:
    doubtful = run("window", 1.25, "within noise", BUSY)
    rows = [run("window", 1.2), doubtful, doubtful]
    assert format_wins(rows) == "1 of 3 (2 doubtful)"
    (line,) = list_remarks(rows)
    assert has(line, "window", "doubtful", "2 of 3 runs", BUSY)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("CPU_FAST holds 51.1 MB, not 102.1", "does not fit, 51 of 102 MB"),
        ("GPU would hold 102.1 MB, above its limit of 51.1 MB", "does not fit, 51 of 102 MB"),
        (
            "A and B would hold 4.2 kB, above the limit of memory pool 'x', 64 B",
            "does not fit, 64 B of 4.2 kB",
        ),
        ("GPU holds 0.3 MB, not 12.5", "does not fit, 0.3 of 12 MB"),
        ("GPU holds 0.3 MB, not 12.5 MB", "does not fit, 0.3 of 12 MB"),
        ("GPU holds 4.2 kB, not 12.5 MB", "does not fit, 4.2 kB of 12 MB"),
        ("GPU holds 64 B, not 4.2 kB (memory pool 'x')", "does not fit, 64 B of 4.2 kB"),
        ("A and B hold 51.0 MB, not 99.8 (memory pool 'x')", "does not fit, 51 of 100 MB"),
        ("RuntimeError: the device caught fire", ""),
        ("", ""),
    ],
)
def test_a_limit_that_is_exceeded_reads_as_what_does_not_fit(error: str, words: str) -> None:
    assert describe_memory_error(error) == words


def test_a_device_that_is_too_small_is_no_failed_run() -> None:
    error = "GPU holds 10.0 MB, not 20.0"
    alone = row("single-device GPU", agent="single-device", kwargs={"device": "GPU"})
    small = alone | {"error": error}
    assert explain_failure(small) == f"GPU alone: {describe_memory_error(error)}"
    assert explain_failure(small, "resnet") == f"GPU alone, resnet: {describe_memory_error(error)}"
    assert explain_failure(alone | {"error": "lost"}) == "single-device GPU: lost"
    searched = row("window", agent="window", kwargs={}, error=error)
    assert explain_failure(searched) == f"window: {error}"


def test_a_search_that_others_disturbed_says_so() -> None:
    rows = [row("a", disturbed=11), row("b", disturbed=9), row("c", disturbed=None)]
    (line,) = list_remarks(rows)
    assert has(line, "a: ", "11 of 100", "run it again")
