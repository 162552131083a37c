"""Compile placements in your own program: whole, in stages, by phase, or by model of a union."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from placement_gym.backends.measured import (
    HeteroPartition,
    StagedModel,
    compile_cut,
    compile_partition,
    set_affinities,
    uses_aliases,
)
from placement_gym.base import UserError, warn_user
from placement_gym.graph import OpGraph, Structure, extract_spec
from placement_gym.models import (
    is_stateful,
    join_names,
    list_members,
    name_added_nodes,
    prepare,
    split_union,
)
from placement_gym.problem import Placement
from placement_gym.workloads import PhasedModel

if TYPE_CHECKING:
    import openvino as ov


def compile_model(
    core: ov.Core,
    model: ov.Model,
    placement: Placement,
    split: str = "auto",
    config: Mapping[str, Any] | None = None,
) -> ov.CompiledModel:
    """Compile a model under a placement, as the measured environment does.

    A placement on a single device is compiled for that device, without HETERO's properties.

    Args:
        core: Virtual devices of the placement, and aliases, are registered in it.
        model: The model that the placement was made for; it stays unchanged.
        placement: The device of each unit, with the settings of each device.
        split: ``"alias"`` separates submodels by second names of a device, ``"hetero"`` lets HETERO
            split the model, ``"auto"`` means ``"alias"`` if the devices allow it.
        config: Further compile properties.

    Raises:
        PlacementMismatchError: The placement was made for another model.
        CompileError: OpenVINO refused the placement.
        ValueError: Unknown split.
    """
    ready = prepare_for(placement, model)
    graph, partition = cut(ready, placement, split)
    return compile_partition(core, ready, graph, partition, config)


def compile_phases(
    core: ov.Core, model: ov.Model, prefill: Placement, decode: Placement
) -> PhasedModel:
    """Compile a model with state under one placement for the prompt and another for tokens.

    ```python
    request = compile_phases(ov.Core(), model, prefill, decode).create_infer_request()
    request.reset_state()
    request.infer(prompt)  # under prefill
    request.infer(token)  # under decode, after the transfer of the state
    ```

    Args:
        core: As for ``compile_model``.
        model: As for ``compile_model``.
        prefill: The placement of the first inference after the state is reset.
        decode: The placement of all later inferences.

    Raises:
        PlacementMismatchError: A placement was made for another model.
        CompileError: OpenVINO refused a placement.
        UserError: The model keeps no state.
    """
    if not is_stateful(model):
        raise UserError("a model without state has no phases: use compile_model")
    return PhasedModel(compile_model(core, model, prefill), compile_model(core, model, decode))


def cut(
    model: ov.Model, placement: Placement, split: str = "auto"
) -> tuple[OpGraph, HeteroPartition]:
    """Cut a model, as ``load_model`` returns it, by a placement; return its graph and submodels."""
    graph = extract_spec(model, placement.spec)
    alias = uses_aliases(split, placement.devices)
    devices = placement.operator_devices(graph)
    return graph, HeteroPartition.from_assignment(graph, devices, placement.devices, alias)


def apply_placement(model: ov.Model, placement: Placement) -> None:
    """Set the affinity of every node of a model, in place, to compile it with ``HETERO``.

    Prefer ``compile_model`` or an export, which separate submodels by aliases of devices. With
    affinities alone HETERO may cut the model into more parts, and refuse tensors with dynamic
    dimensions; a warning says if it may. To try several placements, apply each to a clone.
    Duplicate node names become unique. Constants that several submodels read are copied.

    Args:
        model: The model that the placement was made for.
        placement: The device of each unit. Register its virtual devices in the Core that compiles
            the model, or use ``compile_model``.

    Raises:
        PlacementMismatchError: The placement was made for another model.
    """
    prepare_for(placement, model, in_place=True)
    graph, partition = cut(model, placement, "hetero")
    if model.is_dynamic():
        _, apart = cut(model, placement, "auto")
        if len(apart.devices) > len(partition.devices):
            warn_user(
                f"{partition.n_submodels} submodels need aliases of devices to stay apart; without "
                "them HETERO may refuse tensors of dynamic dimensions (\"Can't set the input "
                'tensor"): use compile_model or an export, or bind the shapes'
            )
    set_affinities(model, graph, partition)


def compile_stages(
    core: ov.Core,
    model: ov.Model,
    placement: Placement,
    config: Mapping[str, Any] | None = None,
) -> StagedModel:
    """Compile each device's part of a placement separately, without HETERO.

    Use this for two GPUs, as HETERO of OpenVINO 2026.4 leaves the second one empty; otherwise
    prefer ``compile_model``. Requests run one stage after another.

    ```python
    request = compile_stages(ov.Core(), model, placement).create_infer_request()
    request.infer([image])
    print(request.output_tensors[0].data)
    ```

    Args:
        core: As for ``compile_model``.
        model: As for ``compile_model``.
        placement: As for ``compile_model``.
        config: Further compile properties of every stage.

    Raises:
        PlacementMismatchError: The placement was made for another model.
        CompileError: OpenVINO refused a stage.
        UserError: The model is a union: ``split_placement`` returns its models.
    """
    if members := list_members(model):
        raise UserError(
            f"{join_names(members)!r} has several models: compile each that split_placement returns"
        )
    ready = prepare_for(placement, model)
    graph = extract_spec(ready, placement.spec)
    devices = placement.operator_devices(graph)
    (staged,) = compile_cut(core, ready, graph, devices, placement.devices, config)
    return staged


def split_placement(model: ov.Model, placement: Placement) -> dict[str, tuple[ov.Model, Placement]]:
    """Return name -> (model, its part of the placement) for each model of a union.

    Names of nodes and inputs are those of each model alone.

    Args:
        model: The union, as ``load_model`` returns it.
        placement: A placement of the union.

    Raises:
        PlacementMismatchError: The placement was made for another model.
        UserError: The model is not a union.
    """
    fitted = placement.fit(extract_spec(model, placement.spec))
    if not list_members(model):
        raise UserError("the model is not a union of several: compile_model takes it as it is")
    placements = {}
    for name, part in split_union(model).items():
        own = take_part(fitted, name)
        graph = extract_spec(part, own.spec)
        own = replace(own, fingerprint=graph.fingerprint(), structure=Structure.from_graph(graph))
        placements[name] = part, own
    return placements


def take_part(placement: Placement, name: str) -> Placement:
    """Take the part of one model; its fingerprint and structure remain the union's."""
    prefix = f"{name}/"

    def take(values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key.removeprefix(prefix): value
            for key, value in values.items()
            if key.startswith(prefix)
        }

    members = {
        unit: tuple(node.removeprefix(prefix) for node in nodes)
        for unit, nodes in take(placement.members).items()
    }
    return replace(
        placement,
        model=name,
        units=take(placement.units),
        members=members,
        data_shapes=take(placement.data_shapes),
    )


def prepare_for(placement: Placement, model: ov.Model, in_place: bool = False) -> ov.Model:
    """Prepare a model, or a copy of it, as it was when the placement was made."""
    ready = model if in_place else model.clone()
    # Placements of version 0.3 fit by names alone. OpenVINO renumbers some names each time that it
    # reads or reshapes a model: restore the numbers of the planned file.
    if placement.structure is None:
        known = {node for nodes in placement.members.values() for node in nodes}
        name_added_nodes(
            node for node in ready.get_ordered_ops() if node.get_friendly_name() not in known
        )
    return prepare(ready, inputs=placement.spec.inputs)
