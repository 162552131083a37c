"""Runs of a compiled placement: one inference, or several that are timed as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import FloatArray
from placement_gym.models import Input, read_values

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.workloads.request import Request

Inputs = list[Input]
Outputs = list[NDArray[Any]]
Beat = Callable[[str], object]
FindParts = Callable[[FloatArray], dict[str, float]]
"""See ``Request.find_parts``."""
MAX_TIMES = 1000
"""Latest runs whose times are kept, as the reference runs for a whole session. Hand-tuned."""


class EngineRequest(Protocol):
    """The part of ``ov.InferRequest`` that inferences use."""

    @property
    def output_tensors(self) -> list[ov.Tensor]:
        """The outputs of the last inference."""

    def infer(self, inputs: Any = None) -> Any:
        """Run one inference, with the previous inputs if none are given."""

    def reset_state(self) -> None:
        """Forget the state."""


class Inferences(ABC):
    """Inferences that a candidate runs each time it is timed."""

    @abstractmethod
    def run(self) -> None:
        """Run once."""

    @abstractmethod
    def outputs(self) -> Outputs:
        """The outputs of a run, to be compared with those of the reference device."""

    def find_timer(self) -> Callable[[], float] | None:
        """A function that takes a sample in ms; None if ``run`` is timed."""
        return None

    def parts_ms(self) -> dict[str, float]:
        """Median latencies of parts of a run since ``forget``, by names as in ``"token_ms"``."""
        return {}

    def models_ms(self) -> tuple[float, ...] | None:
        """Median latencies of the models of a union since ``forget``; None for a single model."""
        return None

    def forget(self) -> None:
        """Restart the timing of parts and models."""
        return


class SingleInference(Inferences):
    """One inference; the inputs, those of the first sample, are set once."""

    def __init__(self, request: EngineRequest, samples: Sequence[Inputs], beat: Beat) -> None:
        self.request, self.beat = request, beat
        self.samples = [dict(enumerate(inputs)) for inputs in samples]
        request.infer(self.samples[0])

    def run(self) -> None:
        self.beat("an inference")
        self.request.infer()

    def outputs(self) -> Outputs:
        """The outputs of every sample, one after another."""
        arrays = read_outputs(self.request)
        for inputs in self.samples[1:]:
            self.beat("an inference")
            self.request.infer(inputs)
            arrays += read_outputs(self.request)
        if len(self.samples) > 1:  # the first one is what runs again
            self.request.infer(self.samples[0])
        return arrays


class StepsRun(Inferences):
    """Several inferences, on a state that is reset before the first one.

    Attributes:
        times: (n_inferences,) ms of each run since ``forget``.
    """

    def __init__(
        self,
        find_parts: FindParts,
        request: EngineRequest,
        samples: Sequence[Sequence[Inputs]],
        beat: Beat,
    ) -> None:
        self.find_parts, self.request, self.beat = find_parts, request, beat
        self.samples = [[dict(enumerate(inputs)) for inputs in steps] for steps in samples]
        self.steps = self.samples[0]
        self.times: deque[FloatArray] = deque(maxlen=MAX_TIMES)
        self.run()

    def run(self) -> None:
        self.request.reset_state()
        ends = [perf_counter()]
        for inputs in self.steps:
            self.beat("an inference")
            self.request.infer(inputs)
            ends.append(perf_counter())
        self.times.append(np.diff(ends) * 1e3)

    def outputs(self) -> Outputs:
        """The outputs of every step of every sample, one after another."""
        arrays: Outputs = []
        for steps in self.samples:
            self.request.reset_state()
            for inputs in steps:
                self.beat("an inference")
                self.request.infer(inputs)
                arrays += read_outputs(self.request)
        return arrays

    def parts_ms(self) -> dict[str, float]:
        return self.find_parts(np.stack(self.times))

    def forget(self) -> None:
        self.times.clear()


def start_inferences(
    timed: Request, request: EngineRequest, samples: Sequence[Sequence[Inputs]], beat: Beat
) -> Inferences:
    """Run once with the first of these samples, and return what runs again."""
    if timed.separable:
        return SingleInference(request, [steps[0] for steps in samples], beat)
    return StepsRun(timed.find_parts, request, samples, beat)


def read_outputs(request: EngineRequest) -> Outputs:
    """A copy of the outputs of the last inference."""
    return [read_values(tensor) for tensor in request.output_tensors]
