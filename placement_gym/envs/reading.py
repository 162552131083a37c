"""Reading observations: their indices, and their sizes, which must be those of the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placement_gym.base import UserError
from placement_gym.envs.scaling import GRAPH_IDS, IndexBox, read_indices

Sizes = dict[str, int]
KEYS = {"max_nodes": "node_mask", "max_edges": "edge_mask", "max_devices": "room"}
"""Argument of ``gym.make`` -> key of observations whose last axis has this size."""


def read_graph_id(observation: Mapping[str, Any]) -> Any:
    """The (..., 1) int64 keys of ``graph_table()``, of an observation or a batch."""
    return read_indices(observation["graph_id"], GRAPH_IDS)


def read_current_unit(observation: Mapping[str, Any]) -> Any:
    """The (..., 1) int64 index of the current unit in an observation of ``PerUnitEnv``."""
    return read_indices(observation["current_unit"], observation["visited"].shape[-1])


def edge_index(observation: Mapping[str, Any]) -> Any:
    """The producer and consumer of each edge, as PyTorch Geometric takes them.

    Args:
        observation: An observation with the graph, or a batch; arrays or tensors.

    Returns:
        (..., 2, E) int64 indices of units, padded where ``edge_mask`` is 0.
    """
    return read_indices(observation["edges"], observation["node_mask"].shape[-1])


def read_sizes(observed: Any) -> Sizes:
    """The numbers of nodes, edges and devices that an observation, a batch or a space has.

    Keys are the arguments of ``gym.make`` that pad to them.
    """
    if not isinstance(observed, Mapping):
        return {}
    # Not by `key in observed`, which for a space asks whether it contains a point.
    entries = {name: observed.get(key) for name, key in KEYS.items()}
    sizes: Sizes = {name: space.shape[-1] for name, space in entries.items() if space is not None}
    placement = observed.get("placement")
    if isinstance(placement, IndexBox):  # known even without `room`
        sizes["max_devices"] = placement.count
    return sizes


def check_sizes(trained: Sizes, observed: Sizes) -> None:
    """Raise if a size of an observation differs from that of a model's training.

    Raises:
        UserError: The message names the arguments that make the sizes equal.
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
