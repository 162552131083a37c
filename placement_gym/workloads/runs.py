"""Runs of a compiled placement, or of one for the prompt and another for the tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
"""Inputs and outputs of an inference, in the order of the model."""
Beat = Callable[[str], object]
"""Called with the name of each step as it begins."""
FindParts = Callable[[FloatArray], dict[str, float]]
"""Type of ``Request.find_parts``."""
MAX_TIMES = 1000
"""Number of runs whose times are kept: the reference runs for a whole session. Hand-tuned."""


class EngineRequest(Protocol):
    """The part of ``ov.InferRequest`` that is used, which ``PhasedRequest`` also has."""

    @property
    def output_tensors(self) -> list[ov.Tensor]:
        """The outputs of the last inference."""

    def infer(self, inputs: Any = None) -> Any:
        """Run one inference, by default with the previous inputs."""

    def reset_state(self) -> None:
        """Forget the state."""


class Inferences(ABC):
    """The inferences of a compiled candidate that are timed as one."""

    @abstractmethod
    def run(self) -> None:
        """Run once."""

    @abstractmethod
    def outputs(self) -> Outputs:
        """The outputs of all samples, for a comparison with the reference device."""

    def find_timer(self) -> Callable[[], float] | None:
        """A function that takes a sample in ms; None: time ``run``."""
        return None

    def parts_ms(self) -> dict[str, float]:
        """Median latencies of ``Request.parts`` since ``forget``."""
        return {}

    def models_ms(self) -> tuple[float, ...] | None:
        """Median latencies of the models of a union since ``forget``."""
        return None

    def forget(self) -> None:
        """Restart the timing of parts and models."""
        return


class SingleInference(Inferences):
    """One inference; the inputs of the first sample are set once."""

    def __init__(self, request: EngineRequest, samples: Sequence[Inputs], beat: Beat) -> None:
        self.request, self.beat = request, beat
        self.samples = [dict(enumerate(inputs)) for inputs in samples]
        request.infer(self.samples[0])

    def run(self) -> None:
        self.beat("an inference")
        self.request.infer()

    def outputs(self) -> Outputs:
        arrays = read_outputs(self.request)
        for inputs in self.samples[1:]:
            self.beat("an inference")
            self.request.infer(inputs)
            arrays += read_outputs(self.request)
        if len(self.samples) > 1:
            self.request.infer(self.samples[0])  # `run` sets no inputs
        return arrays


class StepsRun(Inferences):
    """Several inferences on a state, which is reset before the first one.

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


@dataclass(frozen=True)
class PhasedModel:
    """A model with state, compiled once for the prompt and once for the tokens."""

    prefill: ov.CompiledModel
    decode: ov.CompiledModel

    def create_infer_request(self) -> PhasedRequest:
        """A request with its own state."""
        return PhasedRequest(
            self.prefill.create_infer_request(), self.decode.create_infer_request()
        )


class PhasedRequest:
    """The part of ``ov.InferRequest`` that is used, on two compiled models.

    The first inference after ``reset_state`` runs on the model for prompts; then the state is
    copied to the model for tokens, which runs all others.

    Attributes:
        handover_ms: Time of the last copy.
    """

    def __init__(self, prefill: ov.InferRequest, decode: ov.InferRequest) -> None:
        self.prefill, self.decode = prefill, decode
        self.current: ov.InferRequest | None = None
        self.handover_ms = 0.0

    def reset_state(self) -> None:
        """Forget the state; a prompt is next."""
        self.prefill.reset_state()
        self.decode.reset_state()
        self.current = None

    def infer(self, inputs: Mapping[Any, Any] | None = None) -> Any:
        """Run one inference as ``ov.InferRequest.infer``, and return its outputs."""
        if self.current is self.prefill:
            self.copy_state()
        self.current = self.prefill if self.current is None else self.decode
        return self.current.infer(inputs)

    def copy_state(self) -> None:
        """Copy the state of the prompt to the request for tokens."""
        start_s = perf_counter()
        states = {state.name: state.state for state in self.prefill.query_state()}
        for state in self.decode.query_state():
            state.state = states[state.name]
        self.handover_ms = (perf_counter() - start_s) * 1e3

    @property
    def output_tensors(self) -> list[ov.Tensor]:
        """The outputs of the last inference."""
        tensors: list[ov.Tensor] = (self.current or self.prefill).output_tensors
        return tensors


class PhasedRun(StepsRun):
    """A ``StepsRun`` whose copy of the state does not count as a token's time."""

    def __init__(
        self,
        find_parts: FindParts,
        request: PhasedRequest,
        samples: Sequence[Sequence[Inputs]],
        beat: Beat,
    ) -> None:
        self.phased = request
        self.handovers_ms: deque[float] = deque(maxlen=MAX_TIMES)
        super().__init__(find_parts, request, samples, beat)

    def run(self) -> None:
        super().run()
        self.times[-1][1] -= self.phased.handover_ms
        self.handovers_ms.append(self.phased.handover_ms)

    def parts_ms(self) -> dict[str, float]:
        return {**super().parts_ms(), "handover_ms": float(np.median(self.handovers_ms))}

    def forget(self) -> None:
        super().forget()
        self.handovers_ms.clear()


def start_inferences(
    timed: Request, request: EngineRequest, samples: Sequence[Sequence[Inputs]], beat: Beat
) -> Inferences:
    """Run a compiled request once with the first sample; the result repeats it."""
    if timed.separable:
        return SingleInference(request, [steps[0] for steps in samples], beat)
    return StepsRun(timed.find_parts, request, samples, beat)


def read_outputs(request: EngineRequest) -> Outputs:
    """A copy of the outputs of the last inference."""
    return [read_values(tensor) for tensor in request.output_tensors]
