"""Compilation of placements by OpenVINO HETERO, and the placements that OpenVINO chooses.

OpenVINO 2026.4 may leave the second GPU of a HETERO empty without an error (openvino #38250,
#38253), and outputs are right. So cards and memory are checked after compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends import EngineFailureError, Kind
from placement_gym.base import CompileError, IntArray, format_bytes, last_line
from placement_gym.graph import (
    OpGraph,
    acyclic_submodels,
    separate_parts,
    separating_colours,
    state_border_shapes,
    submodel_devices,
)
from placement_gym.hardware import (
    ALIASABLE,
    DeviceSpec,
    find_device,
    identify_device,
    load_plugin,
    register,
)
from placement_gym.models import split_union
from placement_gym.problem import Problem

if TYPE_CHECKING:
    import openvino as ov

STATISTICS = "GPU_MEMORY_STATISTICS"
HeldBytes = tuple[int | None, ...]
"""(n_devices,) bytes; None if a plugin does not report them."""
USE_STAGES = "place on one GPU, or use compile_stages, which compiles each device by itself"


@dataclass(frozen=True)
class HeteroPartition:
    """A placement for HETERO: submodels and their devices.

    Attributes:
        submodels: (n_operators,) submodel of each operator.
        targets: (n_submodels,) registered name of each submodel's device.
        on: (n_submodels,) index of each submodel's device.
        devices: Name -> device, of all ``targets``.
    """

    submodels: IntArray
    targets: tuple[str, ...]
    on: IntArray
    devices: Mapping[str, DeviceSpec]

    @classmethod
    def from_assignment(
        cls, graph: OpGraph, operator_devices: IntArray, specs: Sequence[DeviceSpec], alias: bool
    ) -> HeteroPartition:
        """Cut a graph into submodels, each on one device.

        HETERO distinguishes submodels by device name alone, and over-splits neighbours on the same
        device. With ``alias``, these get different names of the device if its plugin can be
        registered twice.
        """
        submodels = acyclic_submodels(graph, operator_devices)
        target_devices = submodel_devices(graph, operator_devices, submodels)
        colours = separating_colours(graph, target_devices[submodels], submodels) * alias
        device_names = {spec.name for spec in specs}
        targets = [
            alias_device(specs[device], colour, device_names)
            for device, colour in zip(target_devices.tolist(), colours.tolist(), strict=True)
        ]
        return cls(
            submodels,
            tuple(spec.name for spec in targets),
            target_devices,
            {spec.name: spec for spec in sorted(targets, key=lambda spec: spec.name)},
        )

    @property
    def n_submodels(self) -> int:
        """Number of compiled submodels; a device alone compiles the unchanged model."""
        return 1 if len(self.devices) == 1 else len(self.targets)

    def find_devices(self, graph: OpGraph, member: int) -> dict[str, DeviceSpec]:
        """Name -> device, of all submodels of one model of a union, by number."""
        own = np.unique(self.submodels[graph.model_of == member])
        return {name: self.devices[name] for name in (self.targets[one] for one in own.tolist())}


def alias_device(spec: DeviceSpec, colour: int, used_names: Collection[str] = ()) -> DeviceSpec:
    """The device under an alias name, with the same plugin and settings."""
    if colour == 0 or spec.kind not in ALIASABLE:
        return spec
    plugin, dot, number = spec.name.partition(".")
    name = f"{plugin}_ALIAS{colour}"
    while name + dot + number in used_names:
        name += "_"
    return replace(spec, name=name + dot + number, plugin=spec.kind + dot + number)


def set_affinities(model: ov.Model, graph: OpGraph, partition: HeteroPartition) -> None:
    """Write each node's device into its runtime info, in place.

    Raises:
        CompileError: A node did not keep it.
    """
    owner = separate_parts(model, graph, partition.submodels)
    state_border_shapes(model, owner)
    nodes = {node.get_friendly_name(): node for node in model.get_ordered_ops()}
    for name, node in nodes.items():
        node.get_rt_info()["affinity"] = partition.targets[owner[name]]
    for name, node in nodes.items():
        if node.get_rt_info()["affinity"].astype(str) != partition.targets[owner[name]]:
            raise CompileError(f"{name!r} did not keep its affinity")


def compile_partition(
    core: ov.Core,
    model: ov.Model,
    graph: OpGraph,
    partition: HeteroPartition,
    config: Mapping[str, Any] | None = None,
) -> ov.CompiledModel:
    """Compile a clone of the model for a partition, each device with its own settings.

    Raises:
        CompileError: OpenVINO refused, or submodels run on other devices.
    """
    partitioned_model = model.clone()
    set_affinities(partitioned_model, graph, partition)
    return compile_by_affinity(core, partitioned_model, partition.devices, config)


def compile_members(
    core: ov.Core, model: ov.Model, graph: OpGraph, partition: HeteroPartition
) -> list[ov.CompiledModel]:
    """``compile_partition`` for each model of a union, or the only one."""
    partitioned_model = model.clone()
    set_affinities(partitioned_model, graph, partition)
    members = split_union(partitioned_model).values() or [partitioned_model]
    return [
        compile_by_affinity(core, part, partition.find_devices(graph, number))
        for number, part in enumerate(members)
    ]


def compile_by_affinity(
    core: ov.Core,
    model: ov.Model,
    devices: Mapping[str, DeviceSpec],
    config: Mapping[str, Any] | None = None,
) -> ov.CompiledModel:
    """Compile a model whose nodes name these devices; see ``compile_partition``.

    A single device compiles it without HETERO, which takes time for each input and output.
    """
    register(core, tuple(devices.values()))
    properties = collect_properties(devices) | dict(config or {})
    try:
        compiled = core.compile_model(model, name_target(devices), properties)
    except RuntimeError as error:
        raise CompileError(f"OpenVINO refused the placement: {last_line(error)}") from error
    if len(devices) == 1:
        return compiled
    running = set(compiled.get_property("EXECUTION_DEVICES"))
    if set(map(identify_device, running)) != set(map(identify_device, devices)):
        raise CompileError(
            f"the placement names {sorted(devices)}, HETERO runs on {sorted(running)}"
        )
    check_cards(compiled, devices)
    return compiled


def check_cards(compiled: ov.CompiledModel, devices: Mapping[str, DeviceSpec]) -> None:
    """Check that submodels run on the GPUs that the placement names.

    HETERO's ``EXECUTION_DEVICES`` repeats the requested names even if a GPU stays empty; its device
    properties report the devices in use.
    """
    cards = {
        name: identify_device(spec.plugin or name)
        for name, spec in devices.items()
        if spec.kind == "GPU"
    }
    if len(set(cards.values())) < 2:
        return
    reported = compiled.get_property("DEVICE_PROPERTIES")
    for name, card in cards.items():
        running = [
            identify_device(device) for device in reported[name].get("EXECUTION_DEVICES", [card])
        ]
        if running != [card]:
            raise CompileError(
                f"submodels placed on {name} run on {', '.join(running)}, though {card} was meant: "
                f"{USE_STAGES}"
            )


def watch_memory(
    core: ov.Core, partition: HeteroPartition, n_devices: int
) -> Callable[[], HeldBytes]:
    """Read the memory of devices; returns a function that finds the bytes allocated since then."""
    targets = sorted(set(zip(partition.targets, partition.on.tolist(), strict=True)))
    names = [[name for name, on in targets if on == device] for device in range(n_devices)]
    before = [read_held_bytes(core, own) for own in names]

    def find_held() -> HeldBytes:
        pairs = zip([read_held_bytes(core, own) for own in names], before, strict=True)
        return tuple(
            None if now is None or then is None else max(now - then, 0) for now, then in pairs
        )

    return find_held


def read_held_bytes(core: ov.Core, names: Sequence[str]) -> int | None:
    """Bytes that this process holds on a device under all names; None if unused or not reported."""
    if not names or any(STATISTICS not in load_plugin(core, name) for name in names):
        return None
    return sum(sum(core.get_property(name, STATISTICS).values()) for name in names)


def check_held(problem: Problem, placed_bytes: Sequence[int], held_bytes: HeldBytes) -> None:
    """Check that every device with weights, of ``placed_bytes``, holds any memory."""
    for name, weight_bytes, used_bytes in zip(
        problem.device_names, placed_bytes, held_bytes, strict=True
    ):
        if weight_bytes and used_bytes == 0:
            raise EngineFailureError(
                Kind.INFEASIBLE,
                f"{name} holds nothing, though {format_bytes(weight_bytes)} of weights were placed "
                "on it: OpenVINO ran them elsewhere. Some versions do so with two GPUs in one "
                f"HETERO: {USE_STAGES}",
            )


def name_target(devices: Collection[str]) -> str:
    """The device name to compile for: ``"HETERO:GPU,CPU"``, or a single device."""
    return ",".join(devices) if len(devices) == 1 else f"HETERO:{','.join(devices)}"


def collect_properties(devices: Mapping[str, DeviceSpec]) -> dict[str, Any]:
    """The compile properties for ``name_target``, which give every device its own settings."""
    if len(devices) == 1:
        (spec,) = devices.values()
        return spec.compile_properties()
    # HETERO turns exclusive requests on for splits, and the CPU then ignores its threads.
    return {
        "EXCLUSIVE_ASYNC_REQUESTS": False,
        "DEVICE_PROPERTIES": {name: spec.compile_properties() for name, spec in devices.items()},
    }


def count_submodels(compiled: ov.CompiledModel) -> int:
    """The number of submodels that HETERO made; 1 without HETERO."""
    # SUPPORTED_PROPERTIES would tell, but OpenVINO's Python API never frees the list (2026.4).
    try:
        return int(compiled.get_property("HETERO_NUMBER_OF_SUBMODELS"))
    except RuntimeError:
        return 1


def place_by_hetero(core: ov.Core, model: ov.Model, problem: Problem) -> IntArray:
    """(n_units,) device indices that automatic HETERO chooses."""
    names = problem.device_names
    device_of = core.query_model(model, name_target(names))
    return np.array([find_device(names, device_of[unit]) for unit in problem.units.names])


def place_by_auto(core: ov.Core, model: ov.Model, problem: Problem) -> IntArray:
    """(n_units,) index of the device that AUTO chooses for each model of a union.

    Models are compiled one after another and stay, as in a program that serves them.
    """
    graph, names = problem.units.graph, problem.device_names
    properties = {
        "ENABLE_STARTUP_FALLBACK": False,
        "DEVICE_PROPERTIES": {d.name: d.compile_properties() for d in problem.devices},
    }
    models = [*split_union(model).values()] or [model]
    compiled = [core.compile_model(part, f"AUTO:{','.join(names)}", properties) for part in models]
    model_devices = [part.get_property("EXECUTION_DEVICES")[0].strip("()") for part in compiled]
    of_model = dict(zip(graph.names, graph.model_of.tolist(), strict=True))
    placed = [model_devices[of_model[unit]] for unit in problem.units.names]
    return np.array([find_device(names, device) for device in placed])
