"""The page as a file: complete, and deaf to what a model's names say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from fakes import diamond_backend, diamond_problem

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.graph.units import group
from placement_gym.problem import Problem
from placement_gym.view.data import make_view_data
from placement_gym.view.page import SCRIPTS, hash_source, read, render_page
from placement_gym.view.sources import Scene, Shown

EVIL = (
    "</script><script>document.title='pwned'</script>",
    "<img src=x onerror=alert(1)>",
    "{{script}} <!-- <script> ]]> \u2028",
    "a\u202eb\x1b[31m&amp;\"'`",
)


class Elements(HTMLParser):
    """The elements of a page, and the contents of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.within = False
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes
        if tag == "script":
            self.within = True
            self.scripts.append("")

    def handle_data(self, content: str) -> None:
        if self.within:
            self.scripts[-1] += content

    def handle_endtag(self, tag: str) -> None:
        self.within = False


def make_page(names: tuple[str, ...] | None = None, label: str = "split") -> str:
    backend = diamond_backend()
    if names:
        old = diamond_problem()
        graph = replace(old.units.graph, names=names, types=names, model=names[0])
        problem = Problem(group(graph, "op"), old.devices, old.supported)
        costs = replace(backend.costs, graph=graph.fingerprint(), operators=names)
        backend = SimulatedBackend(problem, costs)
    shown = Shown(label, np.array([0, 0, 1, 1]), label)
    return render_page(make_view_data(Scene(backend, (shown,))))


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
    data: dict[str, Any] = json.loads(evil.scripts[0])
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
