"""A placement, or one for prompts and one for tokens, compiled by HETERO and ready to run."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.backends.measured.candidate import Candidate, Compilation
from placement_gym.backends.measured.hetero import Partition, compile_partition, count_submodels
from placement_gym.backends.measured.inferences import Beat, Inputs, prepare_inferences
from placement_gym.backends.measured.phases import PhasedModel, PhasedRun, join_phases
from placement_gym.base.arrays import IntArray
from placement_gym.problem.problem import Problem

if TYPE_CHECKING:
    import openvino as ov


def compile_candidate(
    core: ov.Core,
    model: ov.Model,
    problem: Problem,
    assignment: IntArray,
    alias: bool,
    steps: Sequence[Inputs],
    beat: Beat,
) -> Candidate:
    """Compile a placement, set the inputs and run it once.

    Args:
        core: Knows the devices of ``problem``.
        model: As ``models.load`` returns it; not changed.
        problem: Units of ``model``, and devices.
        assignment: (n_units,) device indices; or (2, n_units) those for prompts and for tokens.
        alias: See ``Partition.of``.
        steps: (n_inferences,) one array per input for each; a single one without state.
        beat: Called with the name of each step as it begins.

    Raises:
        CompileError: OpenVINO refused the placement.
    """
    beat("compiling")
    found = [
        compile_placement(core, model, problem, one, alias) for one in np.atleast_2d(assignment)
    ]
    beat("the first inference")
    (compiled, facts), *_ = found
    if assignment.ndim == 1:
        stateful = bool(problem.units.graph.scenario)
        request = compiled.create_infer_request()
        return Candidate(prepare_inferences(request, steps, stateful, beat), facts)
    phased = PhasedModel(*(one for one, _ in found)).create_infer_request()
    joined = join_phases(problem, assignment, [facts for _, facts in found])
    return Candidate(PhasedRun(phased, steps, beat), joined)


def compile_placement(
    core: ov.Core, model: ov.Model, problem: Problem, assignment: IntArray, alias: bool
) -> tuple[ov.CompiledModel, Compilation]:
    """Compile one placement; see ``compile_candidate``."""
    started = perf_counter()
    graph, on = problem.units.graph, assignment[problem.units.of_operator]
    partition = Partition.of(graph, on, problem.devices, alias)
    compiled = compile_partition(core, model, graph, partition)
    return compiled, Compilation(
        count_submodels(compiled),
        partition.n_submodels,
        *problem.traffic(assignment),
        tuple(problem.memory_bytes(assignment).tolist()),
        perf_counter() - started,
    )
