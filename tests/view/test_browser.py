"""The page in a browser, where Chromium is installed."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlencode

import pytest
from pages import EVIL, make_large_page, make_page

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
    for word in ("op9", "submodel", "CPU", "GPU", "Reads", "runs from"):
        assert word in details


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
