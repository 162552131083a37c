"""Outputs of the reference device, with which the outputs of placements are compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from placement_gym.backends import EngineFailureError, Kind
from placement_gym.backends.measured.candidate import (
    CompiledPlacement,
    HostedModel,
    compile_candidate,
)
from placement_gym.backends.measured.choices import ChoosingModel
from placement_gym.backends.measured.outputs import (
    MAX_ROUNDING_ERROR,
    check_expected,
    compare_outputs,
    describe_unsteady,
    error_of_steady,
    find_steady,
    find_tolerance,
    measure_rounding,
    relative_error,
)
from placement_gym.base import EngineError, IntArray, UserError
from placement_gym.graph import find_random, without_integer_kernels
from placement_gym.hardware import compile_on, register
from placement_gym.models import separate_constants, shared_constants
from placement_gym.workloads import Inputs, Outputs, start_inferences

if TYPE_CHECKING:
    import openvino as ov


class ReferenceOutputs:
    """The outputs that every placement has to reproduce.

    ``find_reference`` returns the compiled reference device, ``compile_reference`` compiles it
    again. Without a ``tolerance``, the precision of model and devices decides.
    """

    def __init__(
        self,
        host: HostedModel,
        find_reference: Callable[[], CompiledPlacement],
        compile_reference: Callable[[], CompiledPlacement],
        tolerance: float | None = None,
    ) -> None:
        self.host = host
        self.find_reference, self.compile_reference = find_reference, compile_reference
        self.stated_tolerance = tolerance
        self.device = host.problem.devices[host.problem.reference_device]

    @cached_property
    def expected(self) -> Outputs:
        """The outputs of the reference device, which have to be finite."""
        outputs = self.find_reference().outputs()
        check_expected(outputs)
        return outputs

    @cached_property
    def steady(self) -> list[bool]:
        """(n_outputs,) whether the reference device repeats an output."""
        # Read the expected outputs before the reference runs again.
        expected, reference = self.expected, self.find_reference()
        reference.run()
        steady = find_steady(reference.outputs(), expected, self.tolerance)
        if all(steady):
            return steady
        # Random numbers with a seed continue from run to run and restart after a compilation.
        steady = find_steady(self.compile_reference().outputs(), expected, self.tolerance)
        if not all(steady):
            warnings.warn(describe_unsteady(steady, find_random(self.host.model)), stacklevel=2)
        return steady

    @cached_property
    def tolerance(self) -> float:
        """Largest relative error of a feasible placement's outputs."""
        model, devices = self.host.model, self.host.problem.devices
        return self.stated_tolerance or find_tolerance(model, devices, self.measure_rounding)

    def measure_rounding(self) -> float | None:
        """The error of rounding on the reference device; None if it cannot be measured."""
        host = self.host
        if not host.request.separable:
            return None
        tapped = self.choosing.tapped
        whole = self.compile_alone(tapped, "measuring what rounding costs")
        exact = self.compile_alone(without_integer_kernels(tapped), "and without it")
        return measure_rounding(whole, exact, host.samples[0][0], self.find_rounding_error)

    def find_rounding_error(self, outputs: Outputs, expected: Outputs) -> float:
        if not self.choosing.choices:
            return relative_error(outputs, expected)
        first_inference = [self.host.samples[0][:1]]
        own, chosen = self.follow_choices(first_inference, outputs, MAX_ROUNDING_ERROR)
        return max(relative_error(outputs[: len(own)], own), *chosen.values())

    def check(self, outputs: Outputs, assignment: IntArray) -> None:
        """Check that outputs of a placement equal those of the reference device."""
        outputs, expected, chosen = self.expect(outputs, assignment)
        difference = compare_outputs(outputs, expected, self.tolerance, self.steady, chosen)
        if difference:
            self.check_shared_constants(outputs)
            raise EngineFailureError(Kind.INFEASIBLE, difference)

    def find_error(self, outputs: Outputs, assignment: IntArray) -> float:
        """See ``MeasuredBackend.output_error``."""
        outputs, expected, chosen = self.expect(outputs, assignment)
        error = max([error_of_steady(outputs, expected, self.steady), *chosen.values()])
        if error > self.tolerance:
            self.check_shared_constants(outputs)
        return error

    def expect(
        self, outputs: Outputs, assignment: IntArray
    ) -> tuple[Outputs, Outputs, dict[str, float]]:
        """A placement's outputs, what to compare them with, and the error of each choice.

        If outputs differ, they are compared with the reference's for the placement's choices.
        """
        choices, steady = self.choosing.choices, self.steady
        if not choices or error_of_steady(outputs, self.expected, steady) <= self.tolerance:
            return outputs, self.expected, {}
        variant = replace(self.host, model=self.choosing.tapped)
        tapped = compile_candidate(variant, assignment).outputs()
        expected, chosen = self.follow_choices(self.host.samples, tapped, self.tolerance)
        return self.choosing.trim(outputs, expected, tapped), expected, chosen

    def follow_choices(
        self, samples: Sequence[Sequence[Inputs]], tapped: Outputs, limit: float
    ) -> tuple[Outputs, dict[str, float]]:
        """The outputs to expect for the choices in ``tapped``, and the errors of these choices."""
        chosen = self.choosing.force(samples, tapped)
        forced = start_inferences(self.host.request, self.forced, chosen, self.host.beat)
        return self.choosing.find_errors(chosen, forced.outputs(), limit)

    @cached_property
    def choosing(self) -> ChoosingModel:
        return ChoosingModel(self.host.model)

    @cached_property
    def forced(self) -> ov.InferRequest:
        return self.compile_alone(self.choosing.forced, "compiling for the placement's choices")

    def check_shared_constants(self, outputs: Outputs) -> None:
        """Check that separate constants do not change the reference device's outputs.

        ``outputs`` are those of a placement, which differ.
        """
        if self.separate is None:
            return
        error = error_of_steady(self.separate, self.expected, self.steady)
        if error <= self.tolerance:
            return
        agrees = error_of_steady(outputs, self.separate, self.steady) <= self.tolerance
        raise UserError(
            f"{self.device.name} computes the model wrong, and placements cannot be compared with "
            f"it: its outputs change by {error:.1e} relative if operators that read one constant, "
            f"such as {shared_constants(self.host.model)[0]!r}, each have their own"
            f"{', and those of the placement agree with the latter' if agrees else ''}. Save the "
            "model with separate constants, and use that file: ov.save_model("
            "placement_gym.models.separate_constants(ov.Core().read_model(FILE)), NEW_FILE)"
        )

    @cached_property
    def separate(self) -> Outputs | None:
        """The reference device's outputs if each reader of a constant has its own.

        None if no constant is shared, or if that model does not run.
        """
        host = self.host
        if not shared_constants(host.model):
            return None
        with suppress(RuntimeError, EngineError):
            separate = separate_constants(host.model)
            request = self.compile_alone(separate, "computing with separate constants")
            return start_inferences(host.request, request, host.samples, host.beat).outputs()
        return None

    def compile_alone(self, model: ov.Model, why: str) -> ov.InferRequest:
        self.host.beat(why)
        register(self.host.core, [self.device])
        return compile_on(self.host.core, model, self.device, "the model").create_infer_request()

    def forget(self) -> None:
        for name in ("expected", "steady", "separate", "forced"):
            self.__dict__.pop(name, None)
