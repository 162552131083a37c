"""What TensorBoard shows of a training beside numbers: the best placement as a picture."""

from __future__ import annotations

from stable_baselines3.common.logger import Image, Logger, TensorBoardOutputFormat

from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import warn_user
from placement_gym.problem.problem import Problem

NAME = "placement/best"
OTHERS = ("stdout", "log", "json", "csv")
"""Outputs that show no pictures."""


def writes_to_tensorboard(logger: Logger) -> bool:
    """Whether somebody may look at a picture."""
    return any(isinstance(one, TensorBoardOutputFormat) for one in logger.output_formats)


def record_placement(logger: Logger, problem: Problem, assignment: IntArray, title: str) -> None:
    """Record a placement, drawn on its graph, for the next dump of the logger.

    A picture that cannot be drawn is a warning: it must not cost a training.
    """
    from placement_gym.view.figures.placement import draw_placement
    from placement_gym.view.figures.style import render_pixels

    try:
        pixels = render_pixels(draw_placement(problem, assignment, title))
    except Exception as error:
        warn_user(f"TensorBoard gets no picture of the best placement: {error}")
        return
    logger.record(NAME, Image(pixels, "HWC"), exclude=OTHERS)
