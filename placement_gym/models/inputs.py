"""The user's inputs, or only their sizes: as given, and as read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

from placement_gym.models.shapes import InputsArgument, Sample, Sizes

if TYPE_CHECKING:
    import openvino as ov

SIZES = "data_shapes"
"""Key of sizes in place of inputs, in placements and files of version 0.3; inputs of these sizes
are generated."""


@dataclass(frozen=True)
class OwnInputs:
    """The user's inputs of a model, or none.

    Attributes:
        samples: The first one is timed; outputs are compared on each.
        sizes: Sizes of inputs with dynamic dimensions, in the first sample or stated alone.
        other_sizes: Sizes of samples that differ from the first, each once.
        fingerprint: Sixteen hex digits of all names, types, shapes and values; empty without
            samples.
        stated: True if the sizes are complete.
    """

    samples: Sequence[Sample] = ()
    sizes: Sizes = field(default_factory=dict)
    other_sizes: Sequence[Sizes] = ()
    fingerprint: str = ""
    stated: bool = False


def states_sizes(given: Any) -> TypeGuard[Mapping[str, Sizes]]:
    """Return whether sizes are stated instead of inputs."""
    return isinstance(given, Mapping) and set(given) == {SIZES}


def read_older(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Read arguments of ``gym.make`` in files of version 0.3, which had an argument for sizes.

    Returns:
        Equivalent arguments of this version.
    """
    if SIZES not in kwargs:
        return dict(kwargs)
    others = {name: value for name, value in kwargs.items() if name != SIZES}
    return {**others, "inputs": {SIZES: kwargs[SIZES]}}


def read_own(model: ov.Model, given: InputsArgument | None, complete: bool = False) -> OwnInputs:
    """Read the user's inputs and check them against the inputs of a model.

    Args:
        model: The model.
        given: The inputs; None for none.
        complete: Require all inputs of the model.

    Raises:
        UserError: A file cannot be read; or inputs are missing, unknown, or of another type or
            shape: the message lists all of them, with the inputs of the model.
    """
    if given is None:
        return OwnInputs()
    if states_sizes(given):
        return OwnInputs(sizes=given[SIZES], stated=True)
    from placement_gym.models.own_inputs import read_samples

    return OwnInputs(*read_samples(model, given, complete))
