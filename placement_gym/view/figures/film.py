"""Placements as pixels, for a video: only changes are drawn again."""

from __future__ import annotations

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg

from placement_gym.base import IntArray, UInt8
from placement_gym.problem import Problem
from placement_gym.view.figures.large_placement import draw_large_placement
from placement_gym.view.figures.placement import MAX_EDGES, PlacementPicture
from placement_gym.view.figures.style import render_pixels

WHITE, ALPHA = 255, 3


class Film:
    """Placements of one problem as pixels."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.backdrop: Backdrop | None = None

    def render(self, assignment: IntArray, title: str) -> UInt8:
        """(height, width, 3) picture of ``draw_placement``, under a title of one line."""
        if self.problem.units.quotient.n_edges > MAX_EDGES:
            return render_pixels(draw_large_placement(self.problem, assignment, title))
        if self.backdrop is None:
            self.backdrop = Backdrop(self.problem, title)
        return self.backdrop.render(assignment, title)


class Backdrop:
    """A picture with a fixed layout, and its names and key as pixels.

    Names and key take most of the time: they are drawn once, and laid over the units and edges of
    each placement.
    """

    def __init__(self, problem: Problem, title: str) -> None:
        self.picture = picture = PlacementPicture(problem)
        self.canvas = FigureCanvasAgg(picture.figure)
        picture.show(problem.single(0), title)
        self.canvas.draw()  # finds the layout
        picture.figure.set_layout_engine("none")
        picture.figure.patch.set_visible(False)
        self.moving: list[Artist] = [picture.lines, *picture.circles, picture.axes.title]
        for artist in self.moving:
            artist.set_visible(False)
        self.canvas.draw()
        for artist in self.moving:
            artist.set_visible(True)
        above = np.asarray(self.canvas.buffer_rgba()).astype(np.uint16)
        self.at = np.nonzero(above[..., ALPHA])
        self.share = above[self.at][:, 3:]
        self.colour = above[self.at][:, :3] * self.share

    def render(self, assignment: IntArray, title: str) -> UInt8:
        self.picture.show(assignment, title)
        renderer = self.canvas.get_renderer()
        renderer.clear()
        for artist in self.moving:
            artist.draw(renderer)
        drawn = np.asarray(renderer.buffer_rgba())
        pixels = lay_over_white(drawn)
        below = pixels[self.at]
        pixels[self.at] = (self.colour + below * (WHITE - self.share) + WHITE // 2) // WHITE
        return pixels


def lay_over_white(drawn: UInt8) -> UInt8:
    """(height, width, 3) pixels of (height, width, 4) ones on a white ground."""
    pixels = np.full((*drawn.shape[:2], 3), WHITE, dtype=np.uint8)
    visible = np.nonzero(drawn[..., ALPHA])
    colours = drawn[visible].astype(np.uint16)
    colour, share = colours[:, :3], colours[:, 3:]
    pixels[visible] = (colour * share + WHITE * (WHITE - share) + WHITE // 2) // WHITE
    return pixels
