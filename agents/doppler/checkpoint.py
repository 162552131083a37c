"""Both policies from a file of ``agents.save_weights``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from agents.common.saving import to_tensors
from agents.common.weights import read_weights
from agents.doppler.graph import NODE_FEATURES
from agents.doppler.networks import DualPolicy
from agents.doppler.schedule import DEVICE_FEATURES, OWN_FEATURES
from placement_gym.base.errors import UserError
from placement_gym.base.files import FileError
from placement_gym.base.schemas.reading import Fields, check

KIND = "doppler"


class Sizes(Fields):
    """Arguments of ``DualPolicy``."""

    hidden: int = Field(ge=1, le=1024)
    rounds: int = Field(ge=0, le=64)
    n_features: int = Field(ge=1, le=64)


class PolicyFields(Fields):
    """What a file says of its weights."""

    kind: str
    features: list[list[str]]
    settings: Sizes


def describe(policy: DualPolicy) -> dict[str, Any]:
    """What a file says of the weights of a policy."""
    return {"kind": KIND, "features": known_features(), "settings": policy.settings}


def load_policy(path: str | Path, n_features: int) -> DualPolicy:
    """Read what ``save_weights`` wrote of DOPPLER, by anyone: nothing in it is run.

    Args:
        path: The file.
        n_features: Columns of a device that the policy is to see.

    Raises:
        FileError: The file cannot be read.
        UserError: It is damaged, or the policy sees other features.
    """
    try:
        weights, about = read_weights(path)
        fields = check(PolicyFields, about)
        if fields.kind != KIND:
            raise UserError(f"it is of {fields.kind!r:.60}")
        if fields.features != known_features() or fields.settings.n_features != n_features:
            raise UserError("it was trained with other features; train it again")
        policy = DualPolicy(**vars(fields.settings))
        policy.load_state_dict(to_tensors(weights, policy.state_dict()))
    except FileError:
        raise
    except UserError as error:
        raise UserError(f"{path} is no checkpoint of DOPPLER: {error}") from error
    return policy


def known_features() -> list[list[str]]:
    """What policies of this version see."""
    return [list(NODE_FEATURES), list(DEVICE_FEATURES), list(OWN_FEATURES)]
