"""Runs of a compiled placement: one inference, or a whole scenario.

A scenario may have its prompt under one placement and its tokens under another, to which the state
is handed over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_gym.base.arrays import FloatArray
from placement_gym.models.tensors import Input, read_values

if TYPE_CHECKING:
    import openvino as ov

Inputs = list[Input]
Outputs = list[NDArray[Any]]
Beat = Callable[[str], object]
KEPT = 1000
"""Runs whose times are kept: the reference runs as long as the session lasts."""


class PhaseTimes(NamedTuple):
    """Median ms of the prompt, of one token, and of handing the state over between two placements,
    None where there is one.
    """

    prefill_ms: float
    token_ms: float
    handover_ms: float | None = None


class Inferences(ABC):
    """Inferences that a candidate runs each time it is timed."""

    @abstractmethod
    def run(self) -> None:
        """Run once."""

    @abstractmethod
    def outputs(self) -> Outputs:
        """The outputs of a run, to be compared with those of the reference device."""

    def phases_ms(self) -> PhaseTimes | None:
        """Median latencies since ``forget``; None without phases."""
        return None

    def models_ms(self) -> tuple[float, ...] | None:
        """Median latencies of the models of a union since ``forget``; None for a single model."""
        return None

    def forget(self) -> None:
        """Restart the timing of phases and models."""
        return


class SingleInference(Inferences):
    """One inference; the inputs are set once."""

    def __init__(self, request: ov.InferRequest, inputs: Inputs, beat: Beat) -> None:
        self.request, self.beat = request, beat
        request.infer(dict(enumerate(inputs)))

    def run(self) -> None:
        self.beat("an inference")
        self.request.infer()

    def outputs(self) -> Outputs:
        return [read_values(tensor) for tensor in self.request.output_tensors]


class ScenarioRun(Inferences):
    """The inferences of a scenario, on a state that is reset before the first one."""

    def __init__(
        self, request: ov.InferRequest | PhasedRequest, steps: Sequence[Inputs], beat: Beat
    ) -> None:
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
            found += [read_values(tensor) for tensor in self.request.output_tensors]
        return found

    def phases_ms(self) -> PhaseTimes:
        times = np.stack(self.times)
        prompt, tokens = times[:, 0], times[:, 1:]
        prefill_ms, token_ms = np.median(prompt), np.median(tokens.mean(axis=1))
        return PhaseTimes(float(prefill_ms), float(token_ms))

    def forget(self) -> None:
        self.times.clear()


@dataclass(frozen=True)
class PhasedModel:
    """A model with state, compiled for its prompts and again for the tokens that follow."""

    prefill: ov.CompiledModel
    decode: ov.CompiledModel

    def create_infer_request(self) -> PhasedRequest:
        """A request with a state of its own."""
        return PhasedRequest(
            self.prefill.create_infer_request(), self.decode.create_infer_request()
        )


class PhasedRequest:
    """The part of ``ov.InferRequest`` that decoding needs, over two compiled models.

    The first inference after ``reset_state`` runs on the model for prompts. Before the second one
    its state is copied to the model for tokens, which runs that one and all others.

    Attributes:
        handover_ms: What copying the state took last.
    """

    def __init__(self, prefill: ov.InferRequest, decode: ov.InferRequest) -> None:
        self.prefill, self.decode = prefill, decode
        self.current: ov.InferRequest | None = None
        self.handover_ms = 0.0

    def reset_state(self) -> None:
        """Forget the state; a prompt comes next."""
        self.prefill.reset_state()
        self.decode.reset_state()
        self.current = None

    def infer(self, inputs: Mapping[Any, Any]) -> Any:
        """Run one inference; its outputs, as ``ov.InferRequest.infer`` returns them."""
        if self.current is self.prefill:
            self.hand_over()
        self.current = self.prefill if self.current is None else self.decode
        return self.current.infer(inputs)

    def hand_over(self) -> None:
        """Copy the state of the prompt to the request that decodes."""
        started = perf_counter()
        given = {state.name: state.state for state in self.prefill.query_state()}
        for state in self.decode.query_state():
            state.state = given[state.name]
        self.handover_ms = (perf_counter() - started) * 1e3

    @property
    def output_tensors(self) -> list[ov.Tensor]:
        """The outputs of the last inference."""
        tensors: list[ov.Tensor] = (self.current or self.prefill).output_tensors
        return tensors


class PhasedRun(ScenarioRun):
    """As ``ScenarioRun``; handing the state over does not count as a token's time."""

    def __init__(self, request: PhasedRequest, steps: Sequence[Inputs], beat: Beat) -> None:
        self.phased = request
        self.handovers_ms: deque[float] = deque(maxlen=KEPT)
        super().__init__(request, steps, beat)

    def run(self) -> None:
        super().run()
        self.times[-1][1] -= self.phased.handover_ms
        self.handovers_ms.append(self.phased.handover_ms)

    def phases_ms(self) -> PhaseTimes:
        return super().phases_ms()._replace(handover_ms=float(np.median(self.handovers_ms)))

    def forget(self) -> None:
        super().forget()
        self.handovers_ms.clear()
