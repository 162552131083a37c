"""Reading observations: indices, and sizes, of which a model takes those of its training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placement_gym.base import UserError
from placement_gym.envs.scaling import GRAPH_IDS, IndexBox, read_indices

Sizes = dict[str, int]
KEYS = {"max_nodes": "node_mask", "max_edges": "edge_mask", "max_devices": "room"}
"""Argument of ``gym.make`` -> key of an observation that has this size."""


def read_graph_id(observation: Mapping[str, Any]) -> Any:
    """The (..., 1) int64 keys of ``graph_table()`` for an observation or a batch of them."""
    return read_indices(observation["graph_id"], GRAPH_IDS)


def read_current_unit(observation: Mapping[str, Any]) -> Any:
    """The (..., 1) int64 index of the unit that an action places, of ``PerUnitEnv``."""
    return read_indices(observation["current_unit"], observation["visited"].shape[-1])


def edge_index(observation: Mapping[str, Any]) -> Any:
    """The producer and consumer of each edge, as PyTorch Geometric takes them.

    Args:
        observation: Of an environment with ``observe_graph=True``, or a batch; arrays or tensors.

    Returns:
        (..., 2, E) int64 indices of units, an array or a tensor as the observation; ``edge_mask``
        is 1 where there is an edge.
    """
    return read_indices(observation["edges"], observation["node_mask"].shape[-1])


def read_sizes(observed: Any) -> Sizes:
    """Numbers of nodes, edges and devices by the argument that pads to them, as far as known.

    Args:
        observed: An observation, of one or several environments, or the space of one. Others than
            those of placement environments have no sizes.
    """
    if not isinstance(observed, Mapping):
        return {}
    # By `get`, as ``key in space`` asks whether the space contains a point.
    entries = {name: observed.get(key) for name, key in KEYS.items()}
    sizes: Sizes = {name: space.shape[-1] for name, space in entries.items() if space is not None}
    placement = observed.get("placement")
    if isinstance(placement, IndexBox):  # ``room`` is there only where devices are observed
        sizes["max_devices"] = placement.count
    return sizes


def check_sizes(trained: Sizes, observed: Sizes) -> None:
    """Raise if a model is given other sizes than those that it was trained with.

    Args:
        trained: Its own.
        observed: Of the environment or observation; a size that only one of them has is left out.

    Raises:
        UserError: A size differs; the message names the arguments that make them equal.
    """
    shared = [name for name in KEYS if name in trained and name in observed]
    names = [name for name in shared if trained[name] != observed[name]]
    if not names:
        return
    common = write_sizes({name: max(trained[name], observed[name]) for name in names}, names)
    remedy = f"make this environment with {common}"
    if common != write_sizes(trained, names):
        remedy = f"train it with {common}, and make this environment with the same"
    raise UserError(
        f"the model was trained with {write_sizes(trained, names)}, and is given "
        f"{write_sizes(observed, names)}: {remedy}"
    )


def write_sizes(sizes: Sizes, names: list[str]) -> str:
    """The sizes as arguments of ``gym.make``."""
    return ", ".join(f"{name}={sizes[name]}" for name in names)
