"""A conversation under two placements: its prompt under one, and its tokens under the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.workloads.runs import MAX_TIMES, Beat, FindParts, Inputs, StepsRun

if TYPE_CHECKING:
    import openvino as ov


@dataclass(frozen=True)
class PhasedModel:
    """A model with state, compiled for its prompts and again for the tokens that follow."""

    prefill: ov.CompiledModel
    decode: ov.CompiledModel

    def create_infer_request(self) -> PhasedRequest:
        """A request with its own state."""
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

    def infer(self, inputs: Mapping[Any, Any] | None = None) -> Any:
        """Run one inference, as ``ov.InferRequest.infer`` does; returns its outputs."""
        if self.current is self.prefill:
            self.copy_state()
        self.current = self.prefill if self.current is None else self.decode
        return self.current.infer(inputs)

    def copy_state(self) -> None:
        """Copy the state of the prompt to the request that decodes."""
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
    """As ``StepsRun``; copying the state does not count as a token's time."""

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
