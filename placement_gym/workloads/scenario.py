"""Requests of a model with state: a sequence of steps, which begins with an empty state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from placement_gym.base import UserError
from placement_gym.models import Input, as_input, input_names
from placement_gym.workloads.request import Request
from placement_gym.workloads.runs import Inputs
from placement_gym.workloads.samples import draw
from placement_gym.workloads.steps import (
    Step,
    counted_axis,
    match_state,
    sample_at_step,
    take_step,
    tokens_of,
)

if TYPE_CHECKING:
    import openvino as ov


class Scenario(Request):
    """Several inferences on a state, which are timed as one."""

    separable: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that makes it again."""

    @abstractmethod
    def steps(self) -> Sequence[Step]:
        """Every inference."""

    def check_lengths(self, model: ov.Model) -> None:
        """Raise ``UserError`` if own arrays of tokens are shorter than the scenario."""
        steps = self.steps()
        for sample in self.own.samples:
            for index, value in sample.items():
                port = model.inputs[index]
                axis = counted_axis(port, self.data_shapes)
                needed = max(tokens_of(port, step).stop for step in (steps[0], steps[-1]))
                if axis is not None and value.shape[axis] < needed:
                    raise UserError(
                        f"{input_names(port)[0]!r} has {value.shape[axis]} tokens, "
                        f"and scenario {self.name!r} takes {needed}: give so many, or state the "
                        "lengths of a prompt and its answer, as in --scenario chat-128-32"
                    )

    def keywords(self) -> dict[str, Any]:
        return {"scenario": self.name, **super().keywords()}

    def list_lines(self) -> list[str]:
        return [self.name, *super().list_lines()]

    def list_notes(self) -> list[str]:
        return [f"latencies are those of scenario {self.name!r}", *super().list_notes()]


@draw.register(Scenario)
def draw_steps(scenario: Scenario, model: ov.Model, number: int = 0) -> list[Inputs]:
    """See ``samples.draw``; positions are counted, and beams continue themselves.

    Own arrays of tokens are those of the whole scenario, of which each step takes its own.
    """
    rng, sizes = np.random.default_rng(number), scenario.data_shapes
    steps = [match_state(step, model) for step in scenario.steps()]
    samples = scenario.own.samples[number : number + 1] or scenario.own.samples[:1]
    given = samples[0] if samples else {}
    of_ports: list[list[Input]] = []
    for index, port in enumerate(model.inputs):
        axis = counted_axis(port, sizes)
        if index in given and axis is not None:
            of_ports.append([take_step(port, given[index], step, axis) for step in steps])
        elif index in given:
            of_ports.append([as_input(given[index], port.get_element_type())] * len(steps))
        elif input_names(port)[0] in sizes:
            of_ports.append([sample_at_step(port, steps[0], rng, sizes)] * len(steps))
        else:
            of_ports.append([sample_at_step(port, step, rng, sizes) for step in steps])
    return [[values[step] for values in of_ports] for step in range(len(steps))]
