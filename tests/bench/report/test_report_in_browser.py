"""The report's page in use: sorted, filtered, lines hidden, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import browse
from studies import REPORTED

from placement_gym.bench.report.study import report_study

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page_file(folder: Path) -> Path:
    return report_study(REPORTED, folder, "a command", quiet=True)[1]


def test_a_table_is_sorted_by_the_numbers_of_a_column(page_file: Path) -> None:
    with browse(page_file) as page:
        table = page.locator("table").first
        before = table.locator("tbody tr td:nth-child(2)").all_text_contents()
        for order in (sorted, lambda values: sorted(values, reverse=True)):
            table.locator("th:nth-child(2) button").click()
            shown = table.locator("tbody tr td:nth-child(2)").all_text_contents()
            numbers = [float(text) for text in shown]
            assert numbers == order(numbers)
        assert sorted(shown) == sorted(before)
        assert table.locator("th:nth-child(2)").get_attribute("aria-sort") == "descending"


def test_a_table_shows_the_rows_with_all_words(page_file: Path) -> None:
    with browse(page_file) as page:
        filter_box = page.locator("input.filter").first
        filter_box.fill("anneal")
        rows = filter_box.locator("xpath=following-sibling::div[1]//tbody/tr").all()
        assert {"anneal" in (row.text_content() or "") for row in rows if row.is_visible()} == {
            True
        }
        assert any(not row.is_visible() for row in rows)


def test_a_line_can_be_hidden(page_file: Path) -> None:
    with browse(page_file) as page:
        figure = page.locator("figure:has(.toggles)").first
        line = figure.locator('g[id$="agent-1-0-line"]')
        assert line.is_visible()
        figure.locator(".toggles input").nth(1).click()
        assert not line.is_visible()
        assert figure.locator('g[id$="agent-0-0-line"]').is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_have_the_colours_of_the_page(page_file: Path, scheme: str) -> None:
    fill = "(id) => getComputedStyle(document.querySelector(id)).fill"
    with browse(page_file, color_scheme=scheme) as page:
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert page.evaluate(fill, "figure svg [id$=patch_1] path") == ground
        assert page.evaluate(fill, "figure svg text") != ground
        page.locator("#theme").click()
        turned = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert turned != ground
        assert page.evaluate(fill, "figure svg [id$=patch_1] path") == turned


def test_a_phone_needs_no_scrolling_to_the_side(page_file: Path) -> None:
    with browse(page_file, viewport={"width": 380, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
