"""A page in Chromium, driven by Playwright where it is installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def browse(file: Path, before: str = "", ready: bool = True, **context: Any) -> Iterator[Any]:
    """Open a page; it must report no error while it is open.

    Args:
        file: The page.
        before: JavaScript that runs before its scripts.
        ready: Wait until its scripts have run.
        context: Arguments of Playwright's ``new_context``.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(**context).new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.add_init_script(before)
        page.goto(file.as_uri())
        if ready:
            page.wait_for_selector("body[data-ready=yes]", timeout=60_000)
        yield page
        assert not ready or not errors
        browser.close()
