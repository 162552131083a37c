"""The page in a browser, where Chromium is installed."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from graphs import simulate
from pages import EVIL, make_large_page, make_page

from placement_gym.base import IntArray
from placement_gym.view import DisplayedPlacement, Scene, make_view_data, render_page

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


def open_page(page: str, folder: Path, width: int = 1400, **address: object) -> str:
    """The document after the page's scripts have run; they must report no error."""
    file = folder / "page.html"
    file.write_text(page)
    done = subprocess.run(
        [
            str(CHROMIUM),
            *("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
            *(f"--user-data-dir={folder}/profile", f"--window-size={width},900"),
            *("--virtual-time-budget=20000", "--dump-dom"),
            f"{file.as_uri()}#{urlencode(address)}",
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    assert 'data-ready="yes"' in done.stdout
    return done.stdout


def read_details(document: str) -> str:
    """The text of the panel beside the graph."""
    panel = re.search(r'<aside id="details".*?</aside>', document, re.DOTALL)
    assert panel is not None
    return html.unescape(re.sub("<[^>]*>", " ", panel[0]))


def test_a_selected_unit_shows_its_costs(tmp_path: Path) -> None:
    details = read_details(open_page(make_large_page("synthetic-layered-40"), tmp_path, unit="op9"))
    for word in ("op9", "submodel", "CPU", "GPU", "Reads", "starts at", "1 operator "):
        assert word in details


def make_tiny_page(granularity: str, assignment: Callable[[int], IntArray]) -> str:
    backend = simulate("tiny", granularity)
    shown = DisplayedPlacement("mine", assignment(backend.problem.n_units), saved="Saved: a split")
    return render_page(make_view_data(Scene(backend, (shown,))))


def test_a_selected_unit_lists_its_operators_with_types(tmp_path: Path) -> None:
    units = simulate("tiny").problem.units
    unit = int(np.bincount(units.of_operator).argmax())
    page = make_tiny_page("colocated", lambda n: np.zeros(n, dtype=np.int64))
    details = read_details(open_page(page, tmp_path, unit=units.names[unit]))
    inside = np.flatnonzero(units.of_operator == unit).tolist()
    assert f"{len(inside)} operators" in details
    for operator in inside:
        assert f"{units.graph.types[operator]}  {units.graph.names[operator]} " in details


def test_panel_begins_with_what_was_saved_and_one_transfer(tmp_path: Path) -> None:
    details = read_details(
        open_page(make_tiny_page("op", lambda n: np.arange(n) // (n - 1)), tmp_path)
    )
    assert details.split("  ")[1].strip() == "Saved: a split"
    assert "2 submodels, 1 transfer of" in details
    assert re.search(r"mine: \d\.\d{3} [mµ]s ", details)


def test_two_placements_are_compared(tmp_path: Path) -> None:
    page = make_large_page("synthetic-layered-40")
    details = read_details(open_page(page, tmp_path, width=400, against=1, theme="dark"))
    assert "runs compared with alone" in details
    assert re.search(r"\d+ of 40 units moved", details)


def test_search_finds_units_by_name(tmp_path: Path) -> None:
    document = open_page(make_large_page("synthetic-layered-1000"), tmp_path, search="op45")
    matches = re.search(r'<ol id="matches".*?</ol>', document, re.DOTALL)
    assert matches is not None
    assert "11 found" in matches[0]
    assert matches[0].index(">op45 ") < matches[0].index(">op450 ")


def test_names_are_shown_and_not_run(tmp_path: Path) -> None:
    document = open_page(make_page(EVIL, EVIL[0]), tmp_path, unit=EVIL[1])
    assert "<title>pwned" not in document
    assert "<img" not in document
    assert EVIL[1] in read_details(document)


def test_80_000_units_are_grouped(tmp_path: Path) -> None:
    document = open_page(make_large_page("synthetic-layered-80000"), tmp_path, search="op45999")
    assert "80,000 units" in document
    assert "1 found" in document
    assert "<span>outline: submodel</span>" not in document
