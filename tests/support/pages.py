"""Pages of placements, also of a model whose names attack them."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
from fakes import diamond_backend, diamond_problem

from placement_gym.backends.simulated import SimulatedBackend, build_simulated_problem
from placement_gym.graph import group
from placement_gym.models import ModelSpec
from placement_gym.problem import Problem
from placement_gym.view import DisplayedPlacement, Scene, make_view_data, render_page

EVIL = (
    "</script ><script >document.title='pwned'</script >",
    "<img src=x onerror=alert(1)>",
    "{{script}} <!-- <script> ]]> \u2028",
    "a\u202eb\x1b[31m&amp;\"'`",
)


class Elements(HTMLParser):
    """The elements of a page, their attributes, and the contents of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.scripts += [""] if tag == "script" else []

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] += data

    def values(self, *names: str) -> list[str]:
        """The values of attributes."""
        return [value or "" for name, value in self.attributes if name in names]


def unpack(block: str) -> dict[str, Any]:
    """The data of a page from the text of its block."""
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(block)))
    return data


def make_page(names: tuple[str, ...] | None = None, label: str = "split") -> str:
    backend = diamond_backend()
    if names:
        old = diamond_problem()
        graph = replace(old.units.graph, names=names, types=names, model=names[0])
        problem = Problem(group(graph, "op"), old.devices, old.supported)
        costs = replace(backend.costs, graph=graph.fingerprint(), operators=names)
        backend = SimulatedBackend(problem, costs)
    shown = DisplayedPlacement(label, np.array([0, 0, 1, 1]), label)
    return render_page(make_view_data(Scene(backend, (shown,))))


def make_large_page(model: str) -> str:
    """A page of a generated graph in seven runs, and of its first device alone."""
    simulated = build_simulated_problem(ModelSpec(model, "op"))
    problem = simulated.problem
    runs = np.arange(problem.n_units) * 7 // problem.n_units % 2
    shown = (DisplayedPlacement("runs", runs), DisplayedPlacement("alone", problem.single(0)))
    return render_page(make_view_data(Scene(SimulatedBackend(problem, simulated.costs), shown)))
