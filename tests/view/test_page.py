# White-box tests of view
"""The page as a file, and the picture of its placement."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fakes import LIMITED, diamond_backend, diamond_problem
from graphs import simulate
from pages import EVIL, Elements, make_page, unpack

from placement_gym.view import DisplayedPlacement, Scene, make_view_data
from placement_gym.view.page import SCRIPTS, hash_source, make_title, read


def test_the_page_needs_no_network() -> None:
    elements = Elements(make_page())
    loaded = [name for name, _ in elements.attributes if name in ("src", "href", "srcset")]
    assert not loaded
    assert "link" not in elements.tags
    assert "@import" not in read("page.css")
    assert "url(" not in read("page.css")


def test_names_become_neither_markup_nor_script() -> None:
    plain, evil = Elements(make_page()), Elements(make_page(EVIL, EVIL[0]))
    assert evil.tags == plain.tags
    assert evil.scripts[1:] == plain.scripts[1:]
    assert re.fullmatch("[A-Za-z0-9+/=]+", evil.scripts[0])
    data = unpack(evil.scripts[0])
    assert data["units"]["name"][:2] == list(EVIL[:2])
    assert data["units"]["name"][3] == "a\\u202eb\\x1b[31m&amp;\"'`"


def test_the_policy_runs_the_pages_own_scripts_alone() -> None:
    page = make_page(EVIL)
    scripts = Elements(page).scripts
    policy = re.search('Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    allowed = re.findall("'sha256-[^']*'", policy[1])
    assert allowed == [hash_source(script) for script in scripts[1:]]
    assert "default-src 'none'" in policy[1]
    assert "script-src 'unsafe" not in policy[1]


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_write_no_markup(name: str) -> None:
    written = re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", read(f"{name}.js")
    )
    assert not written


def test_the_library_comes_with_its_licence() -> None:
    assert "Mike Bostock" in read("d3.min.js")[:100]
    assert "Permission to use, copy, modify" in read("d3.LICENSE")


@pytest.mark.parametrize("placed", [[0, 0, 0, 1], [1, 1, 1, 1]])
def test_title_has_the_pages_latency_and_says_what_does_not_fit(placed: list[int]) -> None:
    problem = diamond_problem(LIMITED)
    backend = diamond_backend(problem)
    scene = Scene(backend, (DisplayedPlacement("mine", np.array(placed)),))
    shown = make_view_data(scene)["placements"][0]
    expected = f"diamond, mine: {shown['latency_ms']:.4g} ms (simulated)"
    assert make_title(scene) == expected + (f", but {shown['error']}" if shown["error"] else "")
    assert bool(shown["error"]) == all(placed)


def test_title_begins_with_what_was_saved_and_ends_with_cautions() -> None:
    backend = simulate("tiny", "op", "cpu-testbed")
    shown = DisplayedPlacement("mine", backend.problem.single(0), saved="Saved: CPU alone")
    first, _, last = make_title(Scene(backend, (shown,))).splitlines()
    assert first == "Saved: CPU alone"
    assert "test bed" in last
