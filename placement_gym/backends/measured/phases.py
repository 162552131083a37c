"""Prompts under one placement and tokens under another: the state is handed over."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.measured.candidate import Compilation
from placement_gym.backends.measured.inferences import (
    KEPT,
    Beat,
    Inputs,
    PhaseTimes,
    ScenarioRun,
)
from placement_gym.base.arrays import IntArray
from placement_gym.graph.units import Units, contract
from placement_gym.problem.problem import Problem

if TYPE_CHECKING:
    import openvino as ov


@dataclass(frozen=True)
class PhasedModel:
    """A model with state, compiled for its prompts and again for the tokens that follow.

    Attributes:
        prefill: Runs the first inference after the state was reset.
        decode: Runs those that follow.
    """

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

    Args:
        prefill: Of the model for prompts.
        decode: Of the same model, compiled for tokens.

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


def join_phases(problem: Problem, pair: IntArray, compiled: Sequence[Compilation]) -> Compilation:
    """Join the compilations of two placements into what both need together.

    Args:
        problem: Of both.
        pair: (2, n_units) device indices for prompts and for tokens.
        compiled: Of each of them.
    """
    first = prefill_problem(problem)
    n_prefill, prefill_bytes = first.traffic(pair[0])
    n_decode, all_bytes = problem.traffic(pair[1])
    return replace(
        compiled[0],
        n_submodels=sum(one.n_submodels for one in compiled),
        n_submodels_expected=sum(one.n_submodels_expected for one in compiled),
        n_transfers=n_prefill + n_decode,
        transfer_bytes=prefill_bytes + all_bytes - first.traffic(pair[1])[1],
        memory_bytes=tuple(np.sum([one.memory_bytes for one in compiled], axis=0).tolist()),
        compile_s=sum(one.compile_s for one in compiled),
    )


def prefill_problem(problem: Problem) -> Problem:
    """The problem in which tensors have their sizes in the prefill of a scenario alone."""
    units = problem.units
    (_, graph), *_ = units.graph.phases
    quotient = contract(graph, units.of_operator)
    return replace(problem, units=Units(units.granularity, graph, units.of_operator, quotient))
