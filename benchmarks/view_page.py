"""Time until the interactive page shows its graph, and of a search in it, in Chromium.

    pip install playwright
    python benchmarks/view_page.py 1000 80000

Numbers are medians over pages opened afresh, by the clock: on an idle machine alone do they mean
something. ``painted`` is the first frame with text, ``ready``
the one with the graph; ``search`` is the time from a key to the list of matches and ``shown``
until the frame after it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.build import build_simulated_problem
from placement_gym.models.spec import ModelSpec
from placement_gym.view.data import make_view_data
from placement_gym.view.page import render_page
from placement_gym.view.scene import Scene, Shown

READY = "body[data-ready=yes]"
OBSERVE = """
new MutationObserver(() => {
  if (document.body?.dataset.ready && !window.readyAt) {
    window.readyAt = -1;
    requestAnimationFrame(() => setTimeout(() => (window.readyAt = performance.now())));
  }
}).observe(document, { attributes: true, childList: true, subtree: true });
"""
SEARCH = """
async (text) => {
  const input = document.getElementById("search");
  input.value = text;
  const begin = performance.now();
  input.dispatchEvent(new Event("input"));
  const found = performance.now() - begin;
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return [found, performance.now() - begin];
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1000, 80000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print("   units      MB  painted ms  ready ms  search ms  shown ms")
    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for size in options.sizes:
            page = Path(folder) / f"{size}.html"
            page.write_text(make_page(size))
            times = [measure(browser, page, size) for _ in range(options.repeats)]
            numbers = "  ".join(f"{median(column):9.0f}" for column in zip(*times, strict=True))
            print(f"{size:8,} {page.stat().st_size / 1e6:7.2f}  {numbers}", flush=True)
        browser.close()


def make_page(size: int) -> str:
    """A page of a layered graph, placed in seven runs on two devices."""
    simulated = build_simulated_problem(ModelSpec(f"synthetic-layered-{size}", "op"))
    problem = simulated.problem
    runs = np.arange(problem.n_units) * 7 // problem.n_units % 2
    shown = (Shown("runs", runs), Shown("alone", problem.single(0)))
    return render_page(make_view_data(Scene(SimulatedBackend(problem, simulated.costs), shown)))


def measure(browser: Browser, file: Path, size: int) -> tuple[float, float, float, float]:
    """First paint, graph, search and its frame, in ms."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.add_init_script(OBSERVE)
    page.goto(file.as_uri())
    page.wait_for_selector(READY, timeout=120_000)
    page.wait_for_function("window.readyAt > 0")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    ready = page.evaluate("window.readyAt")
    searches = [page.evaluate(SEARCH, f"op{size // divisor}") for divisor in (2, 3, 5, 7, 11)]
    page.close()
    found, shown = (median(column) for column in zip(*searches, strict=True))
    return painted, ready, found, shown


if __name__ == "__main__":
    main()
