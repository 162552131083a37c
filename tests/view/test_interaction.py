"""The interactive page under fingers, and in a browser that is too old."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import browse
from graphs import simulate
from pages import make_large_page

from placement_gym.view import DisplayedPlacement, Scene, make_view_data, render_page

pytestmark = pytest.mark.slow
PHONE = {
    "viewport": {"width": 400, "height": 800},
    "has_touch": True,
    "is_mobile": True,
    "device_scale_factor": 2,
}
PIXELS = """
(selector) => {
  const canvas = document.querySelector(selector);
  canvas.scrollIntoView({ block: "center" });
  return canvas.toDataURL();
}
"""


@pytest.fixture
def phone(tmp_path: Path) -> Iterator[Any]:
    file = tmp_path / "page.html"
    file.write_text(make_large_page("synthetic-layered-100"))
    with browse(file, **PHONE) as page:
        page.wait_for_timeout(300)
        yield page


def move_fingers(page: Any, *paths: list[tuple[float, float]]) -> None:
    """Put fingers down, move each along its points, and lift them."""
    session = page.context.new_cdp_session(page)
    for step, points in enumerate(zip(*paths, strict=True)):
        touches = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(points)]
        kind = "touchMove" if step else "touchStart"
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
        page.wait_for_timeout(20)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(300)


@pytest.mark.parametrize("selector", ["#graph canvas", "#timeline canvas"])
def test_two_fingers_zoom_and_one_drags_without_zooming_the_page(phone: Any, selector: str) -> None:
    before = phone.evaluate(PIXELS, selector)
    box = phone.locator(selector).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    apart = range(30, 110, 10)
    move_fingers(phone, [(x - d, y) for d in apart], [(x + d, y) for d in apart])
    zoomed = phone.evaluate(PIXELS, selector)
    assert zoomed != before
    move_fingers(phone, [(x + d, y) for d in range(0, 90, 10)])
    assert phone.evaluate(PIXELS, selector) != zoomed
    assert phone.evaluate("visualViewport.scale") == 1


def test_a_tap_selects_a_unit_and_says_what_it_is(phone: Any) -> None:
    phone.evaluate("document.getElementById('search').value = 'op50'")
    phone.evaluate("document.getElementById('search').dispatchEvent(new Event('input'))")
    phone.locator("#search").press("Enter")
    phone.evaluate("dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    box = phone.locator("#graph canvas").bounding_box()
    phone.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    phone.wait_for_timeout(200)
    assert phone.locator("#hint").is_visible()
    assert "op50" in phone.locator("#hint").text_content()
    assert phone.locator("#details h2").first.text_content() == "op50"


def test_keys_find_units_and_move_from_one_to_the_next(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(make_large_page("synthetic-layered-40"))
    with browse(file) as page:

        def press(*keys: str) -> str:
            for key in keys:
                page.keyboard.press(key)
            return str(page.locator("#details h2").first.text_content())

        press("/")
        page.keyboard.type("op1")
        assert press("ArrowDown", "Enter") == "op10"
        assert press("Enter") == "op11"
        assert press("Shift+Enter", "Shift+Enter") == "op1"
        page.locator("#graph canvas").focus()
        beside = press("ArrowRight")
        assert beside not in ("op1", "runs")
        assert press("ArrowLeft") != beside
        assert press("Escape").startswith("runs")


def test_the_timeline_stays_between_start_and_end(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(make_large_page("synthetic-layered-40"))
    with browse(file) as page:
        whole = page.evaluate(PIXELS, "#timeline canvas")
        page.locator("#timeline canvas").focus()
        page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(100)
        assert page.evaluate(PIXELS, "#timeline canvas") == whole
        page.keyboard.press("+")
        page.wait_for_timeout(100)
        assert page.evaluate(PIXELS, "#timeline canvas") != whole


def test_a_browser_that_cannot_unpack_the_page_says_so(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(make_large_page("synthetic-layered-20"))
    with browse(file, "delete window.DecompressionStream;", ready=False) as page:
        page.wait_for_timeout(500)
        assert page.locator("#message").is_visible()
        assert "cannot unpack" in page.locator("#message").text_content()


def test_a_measured_latency_is_a_line_of_the_timeline(tmp_path: Path) -> None:
    backend = simulate("tiny", "op")
    alone = backend.problem.single(0)
    pixels = []
    for measured_ms in (None, 1.2 * backend.evaluate(alone).latency_ms):
        file = tmp_path / "page.html"
        scene = Scene(backend, (DisplayedPlacement("alone", alone, "", measured_ms),))
        file.write_text(render_page(make_view_data(scene)))
        with browse(file) as page:
            page.wait_for_timeout(200)
            pixels.append(page.evaluate(PIXELS, "#timeline canvas"))
    assert pixels[0] != pixels[1]
