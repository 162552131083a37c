"""The one sentence that answers whether splitting pays."""

from __future__ import annotations

from typing import Any

import pytest

from placement_gym.bench.report.problems import format_wins
from placement_gym.bench.report.wording import list_doubts, state_verdict

SPLIT = {"a": "CPU", "b": "GPU"}
ALONE = {"label": "single-device CPU", "placement": {"a": "CPU"}, "beats_best_single": "no"}


def run(label: str, ratio: float, beats: str) -> dict[str, Any]:
    return {
        "label": label,
        "placement": SPLIT,
        "beats_best_single": beats,
        "speedup_vs_best_single": ratio,
        "doubt": "",
    }


DOUBT = {"doubt": "the machine was busy"}
FAILED = {"label": "window", "placement": None, "beats_best_single": None, "doubt": ""}


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "No split was measured."),
        ([run("window", 0.5, "no")], "No split beats the best single device."),
        ([run("window", 1.01, "within noise")], "No split beats the best single device; window"),
        (
            [run("window", 1.25, "within noise") | DOUBT],
            "Whether a split beats the best single device could not be decided: the machine was",
        ),
        (
            [run("window", 1.25, "yes"), run("prefix", 1.3, "within noise") | DOUBT],
            "Faster than the best single device: window by 25.0 %.",
        ),
        ([run("window", 1.25, "yes")], "Faster than the best single device: window by 25.0 %."),
        (
            [run("window", 1.25, "yes"), run("prefix", 1.5, "yes")],
            "Faster than the best single device: prefix by 50.0 %; window by 25.0 %.",
        ),
        (
            [run("window", 1.2, "yes"), run("window", 1.4, "yes"), FAILED],
            "Faster than the best single device: window by 30.0 %.",
        ),
        (
            [run("window", r, "yes") for r in (1.1, 1.3)] + [run("window", 0.9, "no")],
            "Faster than the best single device: window by 10.0 %.",
        ),
        (
            [run("window", 1.2, "yes"), FAILED],
            "No agent beats the best single device in most of its runs.",
        ),
    ],
)
def test_the_verdict_counts_wins_beyond_the_noise_in_most_runs(
    rows: list[dict[str, Any]], sentence: str
) -> None:
    assert state_verdict([ALONE, *rows]).startswith(sentence)


def test_without_a_single_device_the_fastest_split_is_named() -> None:
    rows = [run("window", 5.0, "yes"), run("prefix", 7.0, "yes")]
    expected = "No single device holds the model; prefix is the fastest split."
    assert state_verdict(rows, one_device_holds_the_model=False) == expected


def test_report_counts_doubtful_runs_and_names_a_reason() -> None:
    doubtful = run("window", 1.25, "within noise") | DOUBT
    rows = [run("window", 1.2, "yes"), doubtful, doubtful]
    assert format_wins(rows) == "1 of 3 (2 doubtful)"
    assert list_doubts(rows) == ["window is doubtful in 2 of 3 runs: the machine was busy"]
