"""Runs of a compiled placement: one inference, or a whole scenario."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from placement_gym.base.arrays import FloatArray

if TYPE_CHECKING:
    import openvino as ov

Inputs = list[NDArray[Any]]
Outputs = list[NDArray[Any]]
Beat = Callable[[str], object]
KEPT = 1000
"""Runs whose times are kept: the reference runs as long as the session lasts."""


class PhaseTimes(NamedTuple):
    """Median latencies of a scenario's phases.

    Attributes:
        prefill_ms: Of the prompt.
        token_ms: Of one token.
        handover_ms: Of handing the state over between two placements; None where there is one.
    """

    prefill_ms: float
    token_ms: float
    handover_ms: float | None = None


class Inferences(Protocol):
    """Inferences that a candidate runs each time it is timed."""

    def run(self) -> None:
        """Run once."""
        ...

    def outputs(self) -> Outputs:
        """The outputs of a run, to be compared with those of the reference device."""
        ...

    def phases_ms(self) -> PhaseTimes | None:
        """Median latencies since ``forget``; None without phases."""
        ...

    def forget(self) -> None:
        """Restart timing."""
        ...


class Request(Protocol):
    """The part of ``ov.InferRequest`` that running a scenario needs."""

    @property
    def output_tensors(self) -> list[ov.Tensor]:
        """The outputs of the last inference."""
        ...

    def reset_state(self) -> None:
        """Forget the state."""
        ...

    def infer(self, inputs: Mapping[Any, Any]) -> Any:
        """Run one inference."""
        ...


class SingleInference:
    """One inference; the inputs are set once.

    Args:
        request: Of the compiled model.
        inputs: One array per input.
        beat: Called with the name of each step as it begins.
    """

    def __init__(self, request: ov.InferRequest, inputs: Inputs, beat: Beat) -> None:
        self.request, self.beat = request, beat
        request.infer(dict(enumerate(inputs)))

    def run(self) -> None:
        self.beat("an inference")
        self.request.infer()

    def outputs(self) -> Outputs:
        return [tensor.data.copy() for tensor in self.request.output_tensors]

    def phases_ms(self) -> PhaseTimes | None:
        return None

    def forget(self) -> None:
        pass


class ScenarioRun:
    """The inferences of a scenario, on a state that is reset before the first one.

    Args:
        request: Of the compiled model.
        steps: (n_inferences,) one array per input for each.
        beat: Called with the name of each step as it begins.
    """

    def __init__(self, request: Request, steps: Sequence[Inputs], beat: Beat) -> None:
        self.request, self.beat = request, beat
        self.steps = [dict(enumerate(inputs)) for inputs in steps]
        self.times: deque[FloatArray] = deque(maxlen=KEPT)
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
        """Those of every step, one after another."""
        self.request.reset_state()
        found: Outputs = []
        for inputs in self.steps:
            self.beat("an inference")
            self.request.infer(inputs)
            found += [tensor.data.copy() for tensor in self.request.output_tensors]
        return found

    def phases_ms(self) -> PhaseTimes:
        times = np.stack(self.times)
        prompt, tokens = times[:, 0], times[:, 1:]
        prefill_ms, token_ms = np.median(prompt), np.median(tokens.mean(axis=1))
        return PhaseTimes(float(prefill_ms), float(token_ms))

    def forget(self) -> None:
        self.times.clear()


def prepare_inferences(
    request: ov.InferRequest, steps: Sequence[Inputs], stateful: bool, beat: Beat
) -> Inferences:
    """Run for the first time what a candidate will run again.

    Args:
        request: Of the compiled model.
        steps: (n_inferences,) one array per input for each; a single one without state.
        stateful: Whether the model keeps state.
        beat: Called with the name of each step as it begins.
    """
    return (
        ScenarioRun(request, steps, beat) if stateful else SingleInference(request, steps[0], beat)
    )
