"""One placement as text or as a picture."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase, digits
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.backends import Measurement
from placement_gym.base import IntArray, UInt8, format_bytes, make_printable
from placement_gym.problem import Problem

if TYPE_CHECKING:
    from placement_gym.view.figures import Film

LINE_LETTERS = 72
LETTERS = ascii_uppercase + ascii_lowercase + digits
"""Letters of devices, repeated after the last."""


def render_text(problem: Problem, assignment: IntArray, measurement: Measurement) -> str:
    """Describe a placement: a title, a line per device, and a letter per unit."""
    units = np.bincount(assignment, minlength=len(problem.devices))
    memory = [format_bytes(n_bytes) for n_bytes in problem.memory_bytes(assignment).tolist()]
    width = max(len(name) for name in problem.device_names)
    lines = [make_title(problem, measurement)]
    for index, name in enumerate(problem.device_names):
        letter = LETTERS[index % len(LETTERS)]
        lines.append(f"{letter} {name:<{width}} {units[index]:4d} units {memory[index]:>11}")
    letters = "".join(LETTERS[device % len(LETTERS)] for device in assignment)
    return "\n".join(lines + wrap(letters, LINE_LETTERS))


def make_title(problem: Problem, measurement: Measurement) -> str:
    name = make_printable(problem.units.graph.model)
    note = " (test bed)" if problem.testbed else ""
    if not measurement.feasible:
        return f"{name}: infeasible, {make_printable(measurement.error)}{note}"
    reference = problem.device_names[problem.reference_device]
    return (
        f"{name}: {measurement.latency_ms:.3f} ms, {measurement.speedup:.2f} x {reference}, "
        f"{measurement.n_submodels} submodel{'s' * (measurement.n_submodels != 1)}{note}"
    )


class Renderer:
    """Draws placements; for the same problem it redraws only what changes."""

    def __init__(self) -> None:
        self.film: Film | None = None

    def __getstate__(self) -> dict[str, None]:
        return {"film": None}  # figures are made again when needed

    def render(
        self, mode: str | None, problem: Problem, assignment: IntArray, measurement: Measurement
    ) -> str | UInt8 | None:
        """Return text (``"ansi"``) or pixels (``"rgb_array"``), or print the text."""
        if mode == "rgb_array":
            return self.render_rgb(problem, assignment, measurement)
        description = render_text(problem, assignment, measurement)
        if mode == "ansi":
            return description
        print(description)
        return None

    def render_rgb(self, problem: Problem, assignment: IntArray, measurement: Measurement) -> UInt8:
        """(height, width, 3) picture of the graph, coloured by device."""
        from placement_gym.view.figures import Film

        if self.film is None or self.film.problem is not problem:
            self.film = Film(problem)
        return self.film.render(assignment, make_title(problem, measurement))
