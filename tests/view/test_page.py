"""The page as a file: complete, and deaf to what a model's names say."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from pages import EVIL, make_page, unpack

from placement_gym.view.page import SCRIPTS, hash_source, read


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
