"""The user's inputs, or only their sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

from placement_gym.models.shapes import InputsArgument, Sample, Sizes

if TYPE_CHECKING:
    import openvino as ov

SIZES = "data_shapes"
"""Key of sizes instead of inputs, which are then generated; also in files of version 0.3."""


@dataclass(frozen=True)
class OwnInputs:
    """The user's inputs of a model, or none.

    Attributes:
        samples: Samples; the first is timed, outputs are compared for all.
        sizes: Sizes of inputs with dynamic dimensions, in the first sample or as stated.
        other_sizes: Other sizes of later samples.
        fingerprint: Sixteen hex digits of the samples; empty without samples.
        stated: Whether only sizes are given.
    """

    samples: Sequence[Sample] = ()
    sizes: Sizes = field(default_factory=dict)
    other_sizes: Sequence[Sizes] = ()
    fingerprint: str = ""
    stated: bool = False


def states_sizes(given: Any) -> TypeGuard[Mapping[str, Sizes]]:
    """Return whether only sizes are stated."""
    return isinstance(given, Mapping) and set(given) == {SIZES}


def read_older(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Convert arguments of ``gym.make`` in files of version 0.3, which had ``data_shapes``."""
    if SIZES not in kwargs:
        return dict(kwargs)
    others = {name: value for name, value in kwargs.items() if name != SIZES}
    return {**others, "inputs": {SIZES: kwargs[SIZES]}}


def read_own(model: ov.Model, given: InputsArgument | None, complete: bool = False) -> OwnInputs:
    """Read the user's inputs of a model; ``complete`` requires all of them.

    Raises:
        UserError: A file cannot be read, or inputs do not fit; the message lists all faults.
    """
    if given is None:
        return OwnInputs()
    if states_sizes(given):
        return OwnInputs(sizes=given[SIZES], stated=True)
    from placement_gym.models.own_inputs import read_samples

    return OwnInputs(*read_samples(model, given, complete))
