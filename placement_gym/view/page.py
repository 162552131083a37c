"""The page: data, style, scripts and the library d3 in one HTML file that needs no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

SCRIPTS = (
    "read", "state", "texts", "scene", "boxes", "graph", "hints", "timeline", "details", "search",
    "keys", "start",
)  # fmt: skip
"""Of the folder ``static``, in the order in which they run."""
PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def render_page(data: dict[str, Any]) -> str:
    """The HTML file of what ``make_view_data`` returns.

    Nothing that comes from a model or a run can become markup or code: its text is in one block of
    compressed data, and the page's policy runs only the two scripts written here.
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
    return fill_in(read("page.html"), parts)


def fill_in(template: str, parts: Mapping[str, str]) -> str:
    """A page from its template, in which ``{{name}}`` stands for a part."""
    return PLACEHOLDER.sub(lambda found: parts[found[1]], template)


def read(name: str) -> str:
    """A file of the page."""
    return files("placement_gym.view").joinpath("static", name).read_text(encoding="utf-8")


def hash_source(script: str) -> str:
    """Return the hash by which a content security policy names a script within the page."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def pack(data: object) -> str:
    """JSON, compressed and in letters that mean nothing in HTML; equal data become equal text."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
