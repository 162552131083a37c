"""The placement that a page shows first, as a picture."""

from __future__ import annotations

from pathlib import Path

from placement_gym.base.errors import UserError
from placement_gym.hardware.devices import collect_cautions
from placement_gym.view.scene import Scene


def check_picture_file(path: str | Path) -> None:
    """Raise unless the file's name says what kind of picture it is.

    Raises:
        UserError: It ends otherwise.
    """
    from placement_gym.view.figures.style import FORMATS

    if Path(path).suffix.lstrip(".") not in FORMATS:
        endings = ", ".join(f".{kind}" for kind in FORMATS)
        raise UserError(f"a picture's name ends with one of {endings}, not {str(path)!r}")


def draw_shown(scene: Scene, path: str | Path) -> None:
    """Draw the first placement of a scene.

    Raises:
        FileError: The file cannot be written.
    """
    from placement_gym.view.figures.placement import draw_placement
    from placement_gym.view.figures.style import save

    shown, problem = scene.placements[0], scene.backend.problem
    save(draw_placement(problem, shown.assignment, make_title(scene)), Path(path), follow=True)


def make_title(scene: Scene) -> str:
    """Make a title: what is saved, model, placement, latency and what makes it infeasible."""
    shown, backend = scene.placements[0], scene.backend
    latency_ms = backend.evaluate_ignoring_limits(shown.assignment).latency_ms
    title = f"{backend.problem.units.graph.model}, {shown.label}: {latency_ms:.4g} ms (simulated)"
    error = backend.infeasibility(shown.assignment)
    cautions = collect_cautions(backend.problem.devices)
    lines = [shown.saved, f"{title}, but {error}" if error else title, *cautions]
    return "\n".join(line for line in lines if line)
