"""Both policies in a safetensors file, which holds no code."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import Field

from agents.common.safetensors import read_safetensors, write_safetensors
from agents.common.saving import to_tensors
from agents.doppler.graph import NODE_FEATURES
from agents.doppler.networks import DualPolicy
from agents.doppler.schedule import DEVICE_FEATURES, OWN_FEATURES
from placement_gym.errors import UserError
from placement_gym.files import FileError
from placement_gym.schemas.reading import Fields, check, parse_json

KIND = "doppler"
ABOUT = "placement_gym"


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


def save_policy(policy: DualPolicy, path: str | Path) -> None:
    """Write the weights.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
    """
    about = {"kind": KIND, "features": known_features(), "settings": policy.settings}
    write_safetensors(path, policy.state_dict(), {ABOUT: json.dumps(about)})


def load_policy(path: str | Path, n_features: int) -> DualPolicy:
    """Read what ``save_policy`` wrote, by anyone: nothing in it is run.

    Args:
        path: The file.
        n_features: Columns of a device that the policy is to see.

    Raises:
        FileError: The file cannot be read.
        UserError: It is damaged, or the policy sees other features.
    """
    try:
        weights, metadata = read_safetensors(path)
        fields = check(PolicyFields, parse_json(metadata.get(ABOUT, "{}")))
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
