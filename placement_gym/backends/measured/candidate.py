"""Compiled placements, and measurements from their samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.backends import Measurement
from placement_gym.backends.measured.engine import Reporter
from placement_gym.backends.measured.hetero import (
    HeldBytes,
    HeteroPartition,
    check_held,
    compile_partition,
    count_submodels,
    watch_memory,
)
from placement_gym.backends.measured.interference import describe_interference
from placement_gym.backends.measured.timing import Race
from placement_gym.base import RUN_AGAIN, IntArray, is_measurable
from placement_gym.graph import Units, contract
from placement_gym.hardware import DeviceSpec, register
from placement_gym.problem import Problem
from placement_gym.workloads import (
    Inferences,
    Inputs,
    Outputs,
    PhasedModel,
    PhasedRun,
    Request,
    start_inferences,
)

if TYPE_CHECKING:
    import openvino as ov


@dataclass
class HostedModel:
    """A model, which is not changed, with devices and (n_samples, n_inferences) inputs.

    The first sample is timed.
    """

    core: ov.Core
    model: ov.Model
    problem: Problem
    alias: bool
    samples: list[list[Inputs]]
    reporter: Reporter

    @property
    def request(self) -> Request:
        return self.problem.units.graph.request

    def beat(self, step: str) -> None:
        self.reporter.on_heartbeat(step)

    def divide(self, assignment: IntArray, specs: Sequence[DeviceSpec]) -> HeteroPartition:
        """Cut the model into the submodels of a placement on devices with these settings."""
        units = self.problem.units
        operator_devices = assignment[units.of_operator]
        return HeteroPartition.from_assignment(units.graph, operator_devices, specs, self.alias)


@dataclass(frozen=True)
class Compilation:
    """Fields of ``Measurement`` from a compiled placement; those in ms once it was timed."""

    n_submodels: int
    n_submodels_expected: int
    n_transfers: int
    transfer_bytes: int
    memory_bytes: tuple[int, ...]
    compile_s: float
    held_bytes: HeldBytes = ()
    parts_ms: Mapping[str, float] = field(default_factory=dict)
    requests: int | None = None
    streams: int | None = None
    models_ms: tuple[float, ...] | None = None


@dataclass(frozen=True)
class CompiledPlacement:
    """A compiled placement, ready to run."""

    inferences: Inferences
    compilation: Compilation

    def run(self) -> None:
        self.inferences.run()

    def forget(self) -> None:
        self.inferences.forget()

    def outputs(self) -> Outputs:
        return self.inferences.outputs()

    def summarize(self) -> Compilation:
        """The compilation with the times of parts or models."""
        parts_ms, models_ms = self.inferences.parts_ms(), self.inferences.models_ms()
        return replace(self.compilation, parts_ms=parts_ms, models_ms=models_ms)


def compile_candidate(host: HostedModel, assignment: IntArray) -> CompiledPlacement:
    """Compile an (n_units,) placement by HETERO, set the inputs and run it once.

    A (2, n_units) assignment has one placement for prompts and one for tokens.
    """
    host.beat("compiling")
    parts = [compile_placement(host, placement) for placement in np.atleast_2d(assignment)]
    host.beat("the first inference")
    (compiled, facts, find_held), *_ = parts
    inferences: Inferences
    if assignment.ndim == 2:
        phased = PhasedModel(*(model for model, _, _ in parts)).create_infer_request()
        inferences = PhasedRun(host.request.find_parts, phased, host.samples, host.beat)
        facts = join_phases(host.problem, assignment, [facts for _, facts, _ in parts])
    else:
        request = compiled.create_infer_request()
        inferences = start_inferences(host.request, request, host.samples, host.beat)
    # The first inference allocates memory.
    facts = replace(facts, held_bytes=find_held())
    check_held(host.problem, facts.memory_bytes, facts.held_bytes)
    return CompiledPlacement(inferences, facts)


def compile_placement(
    host: HostedModel, assignment: IntArray
) -> tuple[ov.CompiledModel, Compilation, Callable[[], HeldBytes]]:
    """Compile an (n_units,) placement; see ``watch_memory`` for the last item."""
    start_s, problem = perf_counter(), host.problem
    partition = host.divide(assignment, problem.devices)
    register(host.core, tuple(partition.devices.values()))
    find_held = watch_memory(host.core, partition, len(problem.devices))
    compiled = compile_partition(host.core, host.model, problem.units.graph, partition)
    facts = Compilation(
        count_submodels(compiled),
        partition.n_submodels,
        *problem.traffic(assignment),
        tuple(problem.memory_bytes(assignment).tolist()),
        perf_counter() - start_s,
    )
    return compiled, facts, find_held


def join_phases(problem: Problem, pair: IntArray, compiled: Sequence[Compilation]) -> Compilation:
    """Join the compilations of a (2, n_units) pair of placements for prompts and tokens."""
    # The problem's tensors have the bytes of a whole scenario: subtract those of its prefill.
    units = problem.units
    (_, graph), *_ = units.graph.phases
    quotient = contract(graph, units.of_operator)
    prefill_units = Units(units.granularity, graph, units.of_operator, quotient)
    prefill = replace(problem, units=prefill_units)
    n_prefill, prefill_bytes = prefill.traffic(pair[0])
    n_decode, all_bytes = problem.traffic(pair[1])
    return replace(
        compiled[0],
        n_submodels=sum(part.n_submodels for part in compiled),
        n_submodels_expected=sum(part.n_submodels_expected for part in compiled),
        n_transfers=n_prefill + n_decode,
        transfer_bytes=prefill_bytes + all_bytes - prefill.traffic(pair[1])[1],
        memory_bytes=tuple(np.sum([part.memory_bytes for part in compiled], axis=0).tolist()),
        compile_s=sum(part.compile_s for part in compiled),
    )


def join_rounds(rounds: Sequence[Compilation]) -> Compilation:
    """The latest compilation with the medians of times over all rounds."""
    latest = rounds[-1]
    parts = {
        name: float(np.median([facts.parts_ms[name] for facts in rounds]))
        for name in latest.parts_ms
    }
    models = [facts.models_ms for facts in rounds if facts.models_ms is not None]
    medians = tuple(np.median(models, axis=0).tolist()) if models else None
    return replace(latest, parts_ms=parts, models_ms=medians)


def summarize(
    compilation: Compilation, race: Race, arm: int, problem: Problem, measure_s: float = 0.0
) -> Measurement:
    """Make the measurement of an arm from its samples and those of the first arm, the reference."""
    times, reference = race.samples(arm).T
    interference, noise = race.interference(arm), race.noise(arm)
    warning = "" if is_measurable(race.speedup(arm), noise) else RUN_AGAIN
    if interference and not race.is_clear_despite_interference(arm):
        warning = describe_interference(interference, problem.devices)
    # Not the median of times: pairs of samples cancel the machine's drift.
    reference_ms = float(np.median(reference))
    latency_ms = reference_ms / race.speedup(arm)
    return Measurement(
        latency_ms=latency_ms,
        reference_ms=reference_ms,
        latency_p90_ms=max(float(np.percentile(times, 90)), latency_ms),
        noise=noise,
        measure_s=measure_s,
        interference=interference,
        warning=warning,
        **asdict(compilation),
    )
