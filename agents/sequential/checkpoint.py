"""Networks in safetensors files, which hold no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from agents.common.saving import to_tensors
from agents.common.weights import read_weights, save_weights
from agents.sequential import features, outlook, steps
from agents.sequential.network import Network
from placement_gym.errors import UserError
from placement_gym.files import FileError
from placement_gym.schemas.reading import Fields, check

KIND = "sequential placer"


class Settings(Fields):
    """Arguments of ``Network``."""

    hidden: int = Field(ge=1, le=1024)
    rounds: int = Field(ge=0, le=64)


class NetworkFields(Fields):
    """What a file says of its weights."""

    kind: str
    features: list[list[str]]
    settings: Settings
    training: dict[str, Any]


def save_network(network: Network, path: str | Path, training: dict[str, Any]) -> None:
    """Write the weights.

    Args:
        network: To be saved.
        path: The file, which is replaced.
        training: How it was trained, plain values: seed, evaluations and the like.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
    """
    save_weights(network, path, {**describe(network), "training": training})


def describe(network: Network) -> dict[str, Any]:
    """What a file says of the weights of a network."""
    about = {"kind": KIND, "features": known_features(), "settings": network.settings}
    return {**about, "training": {}}


def load_network(path: str | Path) -> Network:
    """Read what ``save_network`` wrote, by anyone: nothing in it is run.

    Raises:
        FileError: The file cannot be read.
        UserError: It is damaged, or the network sees other features.
    """
    try:
        weights, about = read_weights(path)
        fields = check(NetworkFields, about)
        if fields.kind != KIND:
            raise UserError(f"it is of {fields.kind!r:.60}")
        if fields.features != known_features():
            raise UserError("it was trained with other features; train it again")
        network = Network(**vars(fields.settings))
        network.load_state_dict(to_tensors(weights, network.state_dict()))
    except FileError:
        raise
    except UserError as error:
        raise UserError(f"{path} is no checkpoint of the sequential placer: {error}") from error
    return network


def known_features() -> list[list[str]]:
    """What networks of this version see."""
    return [list(known.FEATURES) for known in (features, steps, outlook)]
