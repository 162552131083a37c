"""The files of a scene: an HTML file that needs no network, and a picture."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_gym.base import UserError
from placement_gym.hardware import collect_cautions

if TYPE_CHECKING:
    from placement_gym.view.scene import Scene

SCRIPTS = (
    "read", "state", "texts", "scene", "boxes", "graph", "hints", "timeline", "details", "search",
    "keys", "start",
)  # fmt: skip
"""Scripts of the folder ``static``, in the order they run."""
PICTURES = ("png", "svg", "pdf")
PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
"""A placeholder in the page's template."""


def render_page(data: dict[str, Any]) -> str:
    """Render the values of ``make_view_data`` as an HTML file.

    No text of a model or a run can become markup or code: all is in one block of compressed data,
    and the page's policy runs only its own two scripts.
    """
    library = read("d3.min.js")
    script = "\n".join(read(f"{name}.js") for name in SCRIPTS)
    first = data["placements"][0]["label"] if data["placements"] else ""
    parts = {
        "title": html.escape(f"{data['model']}: {first}"),
        "policy": " ".join(["script-src", hash_source(library), hash_source(script)]),
        "style": read("page.css"),
        "data": pack(data),
        "library": library,
        "script": script,
    }
    return PLACEHOLDER.sub(lambda match: parts[match[1]], read("page.html"))


def read(name: str) -> str:
    return files("placement_gym.view").joinpath("static", name).read_text(encoding="utf-8")


def hash_source(script: str) -> str:
    """The hash by which a content security policy names an inline script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def pack(data: object) -> str:
    """Compress JSON to letters that mean nothing in HTML; equal data become equal text."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def check_picture_file(path: str | Path) -> None:
    """Raise ``UserError`` unless the file's name ends as a kind of picture."""
    if Path(path).suffix.lstrip(".") not in PICTURES:
        endings = ", ".join(f".{kind}" for kind in PICTURES)
        raise UserError(f"a picture's name ends with one of {endings}, not {str(path)!r}")


def draw_shown(scene: Scene, path: str | Path) -> None:
    """Draw the first placement of a scene."""
    from placement_gym.view.figures import draw_placement, save

    placement, problem = scene.placements[0], scene.backend.problem
    save(draw_placement(problem, placement.assignment, make_title(scene)), Path(path), follow=True)


def make_title(scene: Scene) -> str:
    placement, backend = scene.placements[0], scene.backend
    latency_ms = backend.evaluate_ignoring_limits(placement.assignment).latency_ms
    model = backend.problem.units.graph.model
    title = f"{model}, {placement.label}: {latency_ms:.4g} ms (simulated)"
    error = backend.infeasibility(placement.assignment)
    cautions = collect_cautions(backend.problem.devices)
    lines = [placement.saved, f"{title}, but {error}" if error else title, *cautions]
    return "\n".join(line for line in lines if line)
