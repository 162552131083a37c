"""A placement compiled by OpenVINO HETERO so that it really runs where it claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from placement_gym.devices import DeviceSpec, register
from placement_gym.graph.extract import extract
from placement_gym.graph.operators import IntArray, OpGraph
from placement_gym.graph.submodels import (
    acyclic_submodels,
    separating_colours,
    submodel_devices,
)
from placement_gym.placement import Placement

if TYPE_CHECKING:
    import openvino as ov

SPLITS = ("auto", "alias", "hetero")


class CompileError(RuntimeError):
    """OpenVINO refused a placement, or did not do what it was asked."""


@dataclass(frozen=True)
class Split:
    """A placement as HETERO needs it.

    Attributes:
        submodels: (n_operators,) submodel of each operator.
        targets: (n_submodels,) device of each submodel, as registered in the Core.
        devices: Every device that ``targets`` names, with its settings.
    """

    submodels: IntArray
    targets: tuple[str, ...]
    devices: Mapping[str, DeviceSpec]

    @classmethod
    def of(
        cls, graph: OpGraph, operator_devices: IntArray, specs: Sequence[DeviceSpec], alias: bool
    ) -> Split:
        """Split a graph by device.

        HETERO tells submodels apart by device name alone and over-splits when two neighbours
        share one. With ``alias``, neighbours on one device get different names of it.
        """
        submodels = acyclic_submodels(graph, operator_devices)
        on = submodel_devices(graph, operator_devices, submodels)
        colours = separating_colours(graph, on[submodels], submodels) * alias
        chosen = [aliased(specs[d], c) for d, c in zip(on.tolist(), colours.tolist(), strict=True)]
        return cls(
            submodels,
            tuple(spec.name for spec in chosen),
            {spec.name: spec for spec in sorted(chosen, key=lambda spec: spec.name)},
        )

    @property
    def n_submodels(self) -> int:
        return len(self.targets)


def aliased(spec: DeviceSpec, colour: int) -> DeviceSpec:
    """The device under another name, served by the same plugin with the same settings."""
    if colour == 0:
        return spec
    return replace(spec, name=f"{spec.name}_{ascii_uppercase[colour]}", plugin=spec.kind)


def uses_aliases(split: str, specs: Sequence[DeviceSpec]) -> bool:
    """Whether a split mode means alias names on these devices.

    Raises:
        ValueError: Unknown mode, or aliases of a plugin that cannot be registered twice.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {SPLITS}, not {split!r}")
    fixed = [spec.name for spec in specs if spec.kind != "CPU"]
    if split == "alias" and fixed:
        raise ValueError(f"{fixed} cannot be given a second name: use split='hetero' or 'auto'")
    return split != "hetero" and not fixed


def set_affinities(model: ov.Model, graph: OpGraph, split: Split) -> None:
    """Write each node's device into its runtime info, in place, and read it back.

    Raises:
        CompileError: A node has no device or lost it.
    """
    owner = {
        name: int(submodel)
        for names, submodel in zip(graph.members, split.submodels, strict=True)
        for name in names
    }
    give_each_submodel_its_own(model, graph, owner)
    for node in model.get_ordered_ops():
        name = node.get_friendly_name()
        node.get_rt_info()["affinity"] = split.targets[owner[name]]
    for node in model.get_ordered_ops():
        name = node.get_friendly_name()
        if node.get_rt_info()["affinity"].astype(str) != split.targets[owner[name]]:
            raise CompileError(f"{name!r} did not keep its affinity")


def give_each_submodel_its_own(model: ov.Model, graph: OpGraph, owner: dict[str, int]) -> None:
    """Copy constants, and what is computed from them alone, for each further submodel.

    A shared one would tie its readers together: HETERO then moves it as data, or over-splits.
    The copies are added to ``owner``.
    """
    operators = set(graph.names)
    copies: dict[tuple[str, int], ov.Node] = {}

    def copyable(node: ov.Node) -> bool:
        folded = node.get_friendly_name() not in operators
        return node.get_type_name() == "Constant" or (
            folded and node.get_type_name() not in ("Parameter", "Result")
        )

    def copy(output: ov.Output, submodel: int) -> ov.Output:
        node = output.get_node()
        if not copyable(node) or owner[node.get_friendly_name()] == submodel:
            return output
        key = (node.get_friendly_name(), submodel)
        if key not in copies:
            inputs = [copy(port.get_source_output(), submodel) for port in node.inputs()]
            copies[key] = duplicate(node, inputs, f"{key[0]}/submodel{submodel}")
            owner[copies[key].get_friendly_name()] = submodel
        return copies[key].output(output.get_index())

    for node in model.get_ordered_ops():
        if copyable(node):
            continue
        for port in node.inputs():
            source = port.get_source_output()
            own = copy(source, owner[node.get_friendly_name()])
            if own != source:
                port.replace_source_output(own)


def duplicate(node: ov.Node, inputs: list[ov.Output], name: str) -> ov.Node:
    """A node of the same type and attributes on other inputs."""
    import openvino as ov
    from openvino.utils.node_factory import NodeFactory

    if node.get_type_name() == "Constant":
        result: ov.Node = ov.op.Constant(node.get_tensor_view(), shared_memory=False)
    else:
        result = NodeFactory().create(node.get_type_name(), inputs, node.get_attributes())
    result.set_friendly_name(name)
    return result


def compile_split(
    core: ov.Core,
    model: ov.Model,
    graph: OpGraph,
    split: Split,
    config: Mapping[str, Any] | None = None,
) -> ov.CompiledModel:
    """Compile a clone of the model under a split, every device with its own settings.

    Raises:
        CompileError: OpenVINO refused, or the model would run on other devices.
    """
    placed = model.clone()
    set_affinities(placed, graph, split)
    register(core, tuple(split.devices.values()))
    properties = {
        # HETERO turns exclusive requests on when it splits, and the CPU plugin then ignores
        # its thread limit.
        "EXCLUSIVE_ASYNC_REQUESTS": False,
        "DEVICE_PROPERTIES": {
            name: spec.compile_properties() for name, spec in split.devices.items()
        },
        **(config or {}),
    }
    try:
        compiled = core.compile_model(placed, f"HETERO:{','.join(split.devices)}", properties)
    except RuntimeError as error:
        raise CompileError(f"OpenVINO refused the placement: {last_line(error)}") from error
    running = set(compiled.get_property("EXECUTION_DEVICES"))
    if running != set(split.devices):
        raise CompileError(f"asked for {sorted(split.devices)}, it runs on {sorted(running)}")
    return compiled


def last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def n_submodels(compiled: ov.CompiledModel) -> int:
    """Submodels that HETERO really made."""
    return int(compiled.get_property("HETERO_NUMBER_OF_SUBMODELS"))


def compile_model(
    core: ov.Core,
    model: ov.Model,
    placement: Placement,
    split: str = "auto",
    config: Mapping[str, Any] | None = None,
) -> ov.CompiledModel:
    """Compile a model under a placement, as the measured environment does.

    Args:
        core: Virtual devices of the placement, and aliases, are registered in it.
        model: The model that the placement was made for; it is not changed.
        placement: Where each unit goes, with the settings of each device.
        split: ``"alias"`` keeps our own acyclic submodels apart by alias device names,
            ``"hetero"`` leaves splitting to HETERO, ``"auto"`` is alias where devices allow it.
        config: Further compile properties.

    Raises:
        PlacementMismatchError: The placement was made for another model.
        CompileError: OpenVINO refused the placement.
        ValueError: Unknown split.
    """
    from placement_gym.models import prepare

    ready = prepare(model.clone())
    graph = extract(ready, placement.graph)
    alias = uses_aliases(split, placement.devices)
    plan = Split.of(graph, placement.operator_devices(graph), placement.devices, alias)
    return compile_split(core, ready, graph, plan, config)
