"""Outputs of the reference device, with which those of placements are compared."""

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
    """The outputs that every placement has to reproduce, each computed when first needed.

    Args:
        host: The model.
        find_reference: The reference device, as it is compiled and kept.
        compile_reference: Compiles it once more.
        tolerance: Largest relative error; None finds it by the model's and the devices' precision.
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
        """The outputs of the reference device.

        Raises:
            UserError: They are not finite, and nothing can be compared with them.
        """
        outputs = self.find_reference().outputs()
        check_expected(outputs)
        return outputs

    @cached_property
    def steady(self) -> list[bool]:
        """(n_outputs,) whether the reference device computes an output again."""
        # What is expected is read before the reference runs again.
        expected, reference = self.expected, self.find_reference()
        reference.run()
        steady = find_steady(reference.outputs(), expected, self.tolerance)
        if all(steady):
            return steady
        # A generator with a seed continues from run to run, and restarts in another compilation.
        steady = find_steady(self.compile_reference().outputs(), expected, self.tolerance)
        if not all(steady):
            warnings.warn(describe_unsteady(steady, find_random(self.host.model)), stacklevel=2)
        return steady

    @cached_property
    def tolerance(self) -> float:
        """Largest relative error of outputs beyond which a placement is infeasible."""
        model, devices = self.host.model, self.host.problem.devices
        return self.stated_tolerance or find_tolerance(model, devices, self.measure_rounding)

    def measure_rounding(self) -> float | None:
        """Measure the error of rounding on the reference device; None where that cannot be done."""
        host = self.host
        if not host.request.separable:
            return None
        tapped = self.choosing.tapped
        whole = self.compile_alone(tapped, "measuring what rounding costs")
        exact = self.compile_alone(without_integer_kernels(tapped), "and without it")
        return measure_rounding(whole, exact, host.samples[0][0], self.find_rounding_error)

    def find_rounding_error(self, outputs: Outputs, expected: Outputs) -> float:
        """The relative error of what ``ChoosingModel.tapped`` returned."""
        if not self.choosing.choices:
            return relative_error(outputs, expected)
        first_inference = [self.host.samples[0][:1]]
        own, chosen = self.follow_choices(first_inference, outputs, MAX_ROUNDING_ERROR)
        return max(relative_error(outputs[: len(own)], own), *chosen.values())

    def check(self, outputs: Outputs, assignment: IntArray) -> None:
        """Compare the outputs of a placement with those of the reference device.

        Raises:
            EngineFailureError: They differ.
            UserError: The reference device computes the model wrong.
        """
        outputs, expected, chosen = self.expect(outputs, assignment)
        difference = compare_outputs(outputs, expected, self.tolerance, self.steady, chosen)
        if difference:
            self.check_shared_constants(outputs)
            raise EngineFailureError(Kind.INFEASIBLE, difference)

    def find_error(self, outputs: Outputs, assignment: IntArray) -> float:
        """The relative error of outputs; infinite if not finite, or of other shapes.

        Raises:
            UserError: The reference device computes the model wrong.
        """
        outputs, expected, chosen = self.expect(outputs, assignment)
        error = max([error_of_steady(outputs, expected, self.steady), *chosen.values()])
        if error > self.tolerance:
            self.check_shared_constants(outputs)
        return error

    def expect(
        self, outputs: Outputs, assignment: IntArray
    ) -> tuple[Outputs, Outputs, dict[str, float]]:
        """A placement's outputs, what to compare them with, and the error of each choice.

        Where they differ from the reference's, these are its outputs for the placement's choices,
        and rows that a device leaves free are cut off.
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
        """Expected outputs, and errors of choices, for those that ``tapped`` outputs contain."""
        chosen = self.choosing.force(samples, tapped)
        forced = start_inferences(self.host.request, self.forced, chosen, self.host.beat)
        return self.choosing.find_errors(chosen, forced.outputs(), limit)

    @cached_property
    def choosing(self) -> ChoosingModel:
        """The model's choices."""
        return ChoosingModel(self.host.model)

    @cached_property
    def forced(self) -> ov.InferRequest:
        """The reference device, with choices as inputs."""
        return self.compile_alone(self.choosing.forced, "compiling for the placement's choices")

    def check_shared_constants(self, outputs: Outputs) -> None:
        """Compare the reference device with itself, each reader of a constant having its own.

        Args:
            outputs: Those of a placement that differ from the reference's.

        Raises:
            UserError: It computes two things, and placements cannot be compared with it.
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
        """The reference device's outputs if no two operators read one constant.

        None if no two do anyway, or if that model does not run.
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
        """Compile a variant of the model on the reference device."""
        self.host.beat(why)
        register(self.host.core, [self.device])
        return compile_on(self.host.core, model, self.device, "the model").create_infer_request()

    def forget(self) -> None:
        """Drop the outputs."""
        for name in ("expected", "steady", "separate", "forced"):
            self.__dict__.pop(name, None)
