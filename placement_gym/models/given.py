"""Inputs of the user's own, or their sizes alone, as they are given and as they were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from numpy.typing import NDArray

Given: TypeAlias = "str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]"
"""An ``.npz`` of named arrays, a folder of ``.npy`` or of ``.npz`` (a sample each), a mapping of
names to arrays, or a list of these mappings, the samples. An array of a dimension more than its
input has samples along its first axis. ``{"data_shapes": sizes}`` states sizes alone."""
Sample: TypeAlias = Mapping[int, NDArray[Any]]
"""Index of an input of the model -> its numbers or strings."""
Sizes: TypeAlias = Mapping[str, Sequence[int]]
"""Input name -> its sizes."""
SIZES = "data_shapes"
"""What placements, and files of version 0.3, state instead of inputs: sizes of dynamic inputs, at
which they are generated."""


@dataclass(frozen=True)
class OwnInputs:
    """The inputs that a user gives for a model, or none.

    Attributes:
        samples: The first one is timed; outputs are compared on each.
        sizes: Those of inputs that keep dynamic dimensions, in the first sample or stated alone.
        other_sizes: Those of samples with other sizes, each once.
        fingerprint: Sixteen hex digits of all names, types, shapes and values; empty without
            samples.
        stated: Whether sizes are complete, so that none is to be asked for.
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
    """Arguments of ``gym.make`` in files of version 0.3, where sizes had an argument of their own.

    Returns:
        Those of this version, which makes the same of them.
    """
    if SIZES not in kwargs:
        return dict(kwargs)
    others = {name: value for name, value in kwargs.items() if name != SIZES}
    return {**others, "inputs": {SIZES: kwargs[SIZES]}}
