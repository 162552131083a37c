"""Export a placement for programs that use OpenVINO alone: model, affinities and a script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from pprint import pformat
from shutil import copyfile
from textwrap import indent
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.backends.measured import (
    HeteroPartition,
    collect_properties,
    name_target,
    set_affinities,
)
from placement_gym.base import (
    UserError,
    make_output_folder,
    replace_files,
    safe_name,
    warn_user,
    write_json,
    write_text,
)
from placement_gym.deployment import export_scripts as scripts
from placement_gym.deployment.compile import cut
from placement_gym.deployment.several import split_placement
from placement_gym.graph import OpGraph, submodel_devices
from placement_gym.hardware import list_plugins
from placement_gym.models import (
    Given,
    Shapes,
    input_names,
    inputs_of,
    is_stateful,
    list_members,
    model_of_placement,
    save_arrays,
    save_model,
)
from placement_gym.problem import Placement
from placement_gym.workloads import draw, make_request

if TYPE_CHECKING:
    import openvino as ov

CONTROL = re.compile(r"[\x00-\x1f\x7f]")
KEY = ["placement_gym", "affinities"]
"""Path of the affinities in the model's runtime info: JSON, as nodes cannot keep their own."""
PHASES = ("prefill", "decode")
MODEL, WEIGHTS, AFFINITIES, SCRIPT = "model.xml", "model.bin", "affinities.json", "run.py"
INPUTS = "inputs.npz"


def export_placement(
    placement: Placement | str | Path,
    out: str | Path,
    model: Any = None,
    shapes: Shapes | None = None,
    split: str = "auto",
    requests: int | None = None,
    inputs: Given | None = None,
    extension: str | Path | None = None,
) -> list[Path]:
    """Export a model and its placement for programs without this package.

    ``model.xml`` (and ``.bin``) is the model, cut for the placement, with unchanged weights; its
    runtime info has the device of every node. ``run.py`` needs OpenVINO alone: import
    ``compile_model`` from it, or run it for a median latency on ``inputs.npz``, otherwise on zeros.
    ``affinities.json`` maps nodes to devices in the format of OpenVINO's ``hello_affinity`` and of
    ``benchmark_app -affinity``; it names no aliases of devices, so HETERO may cut the model into
    more parts. For a union, each model gets a folder with these files; ``run.py`` next to them runs
    all at the same time.

    Args:
        placement: A placement or its file.
        out: The folder; files of these names in it are replaced.
        model: The model that the placement was made for, as for ``gym.make``; None means the
            built-in model that it names.
        shapes: As for ``gym.make``.
        split: See ``placement_gym.compile_model``.
        requests: Requests in flight: ``run.py`` then also has ``make_queue``, which returns an
            ``ov.AsyncInferQueue`` of this size, or for a model with state ``make_requests``, which
            returns requests with separate states, one for each thread.
        inputs: As for ``gym.make``; the first sample is copied as ``inputs.npz``.
        extension: As for ``gym.make``; the library is copied to the folder.

    Returns:
        The model, the script, the affinities, and the library of an extension.

    Raises:
        PlacementMismatchError: The placement was made for another model.
        UserError: ``out`` cannot be written, or the model cannot be loaded.
    """
    loaded_placement = placement if isinstance(placement, Placement) else Placement.load(placement)
    folder = make_output_folder(out)
    with model_of_placement(model):
        spec = replace(loaded_placement.spec.with_model(model, shapes, None), extension=extension)
        loaded_model = spec.load()
    if list_members(loaded_model):
        export_part = partial(export_placement, split=split, requests=requests, extension=extension)
        return export_union(export_part, loaded_placement, folder, loaded_model, requests, inputs)
    arrays = list_own_arrays(loaded_placement, loaded_model, folder, inputs)
    graph, partition = cut(loaded_model, loaded_placement, split)
    set_affinities(loaded_model, graph, partition)
    replace_control_characters(loaded_model)
    # Nodes cannot keep their devices in a file: the model's runtime info holds them all.
    affinities = read_affinities(loaded_model)
    loaded_model.set_rt_info(json.dumps(affinities), KEY)
    # Other tools have no aliases of devices: they get plain names.
    names = name_devices(loaded_placement, graph, partition)
    plain = {node: names[device] for node, device in affinities.items()}
    library = Path(extension).name if extension else ""
    in_flight = scripts.REQUESTS if is_stateful(loaded_model) else scripts.QUEUE
    script = write_script(
        loaded_placement,
        sorted(set(names.values())),
        partition,
        list_shapes(loaded_model, loaded_placement),
        in_flight.format(requests=requests) if requests else "",
        bool(arrays),
        library,
    )
    with replace_files(folder) as new_folder:
        save_model(loaded_model, new_folder / MODEL)
        if arrays:
            save_arrays(arrays, new_folder / INPUTS)
        write_json(new_folder / AFFINITIES, plain)
        write_text(new_folder / SCRIPT, script)
        if extension:
            copyfile(extension, new_folder / library)
    more = [*[INPUTS] * bool(arrays), *[library] * bool(library)]
    return [folder / name for name in (MODEL, WEIGHTS, SCRIPT, AFFINITIES, *more)]


def list_own_arrays(
    placement: Placement, model: ov.Model, folder: Path, given: Given | None
) -> dict[str, NDArray[Any]]:
    """Return the user's inputs of the first inference of the first sample by name, if any.

    Types that NumPy lacks have their bits.

    Raises:
        UserError: The export would replace the given inputs, or change their folder.
    """
    replaced = [folder.resolve(), (folder / INPUTS).resolve()]
    if isinstance(given, (str, Path)) and Path(given).resolve() in replaced:
        raise UserError(f"the export would replace {str(given)!r:.200}: choose another folder")
    request = make_request(model, placement.scenario or None, given or placement.spec.inputs)
    if not request.own.samples:
        for note in placement.describe_inputs(own=""):
            warn_user(note)
        return {}
    values = draw(request, model)[0]
    names = [input_names(port)[0] for port in model.inputs]
    return {
        name: value if isinstance(value, np.ndarray) else value.data
        for name, value in zip(names, values, strict=True)
    }


def export_union(
    export: Callable[..., list[Path]],
    placement: Placement,
    folder: Path,
    model: ov.Model,
    requests: int | None,
    inputs: Given | None,
) -> list[Path]:
    """Export each model of a union to a folder with its name; ``run.py`` next to them runs all.

    Returns:
        The script, and the files of all exports.
    """
    parts = split_placement(model, placement)
    files = [
        file
        for name, (part, part_placement) in parts.items()
        for file in export(part_placement, folder / name, part, inputs=inputs_of(inputs, name))
    ]
    rates = pformat({member.name: member.rate for member in list_members(model)}, sort_dicts=False)
    about = quote(f"Run the models {safe_name(placement.model)} at the same time, as planned.")
    pool, serve = "", scripts.UNION_QUEUES
    if is_stateful(model):
        pool, serve = scripts.POOL, scripts.UNION_THREADS
    script = scripts.UNION.format(
        about=about, pool=pool, rates=rates, requests=requests or 2, serve=serve
    )
    write_text(folder / SCRIPT, script)
    return [folder / SCRIPT, *files]


def export_phases(
    prefill: Placement,
    decode: Placement,
    out: str | Path,
    model: Any = None,
    shapes: Shapes | None = None,
    inputs: Given | None = None,
    extension: str | Path | None = None,
) -> list[Path]:
    """Export one placement for the prompt and one for tokens.

    The folders ``prefill`` and ``decode`` are complete exports. ``Request`` of ``run.py`` next to
    them runs the prompt in the first and tokens in the second, and transfers the state.

    Returns:
        The script, and the files of both exports.
    """
    folder = make_output_folder(out)
    pairs = ((phase, placement) for phase, placement in zip(PHASES, (prefill, decode), strict=True))
    files = [
        file
        for phase, placement in pairs
        for file in export_placement(
            placement, folder / phase, model, shapes, inputs=inputs, extension=extension
        )
    ]
    about = f"Run {safe_name(prefill.model)}: the prompt as in prefill/, tokens as in decode/."
    write_text(folder / SCRIPT, scripts.PHASES.format(about=quote(about)))
    return [folder / SCRIPT, *files]


def replace_control_characters(model: ov.Model) -> None:
    """Rename nodes whose names a file cannot contain."""
    nodes = model.get_ordered_ops()
    used_names = {node.get_friendly_name() for node in nodes}
    for node in nodes:
        name = CONTROL.sub("_", node.get_friendly_name())
        if name == node.get_friendly_name():
            continue
        while name in used_names:
            name += "_"
        used_names.add(name)
        node.set_friendly_name(name)


def read_affinities(model: ov.Model) -> dict[str, str]:
    """Return node -> device of a model that has affinities."""
    return {
        node.get_friendly_name(): node.get_rt_info()["affinity"].astype(str)
        for node in model.get_ordered_ops()
    }


def name_devices(
    placement: Placement, graph: OpGraph, partition: HeteroPartition
) -> dict[str, str]:
    """Map names in a partition, which may be aliases, to names of the placement's devices."""
    devices = submodel_devices(graph, placement.operator_devices(graph), partition.submodels)
    names = [placement.devices[device].name for device in devices.tolist()]
    return dict(zip(partition.targets, names, strict=True))


def list_shapes(model: ov.Model, placement: Placement) -> dict[str, list[int]]:
    """Return the shape of each input by name: as measured, otherwise 1 where it is dynamic."""
    smallest = {
        input_names(port)[0]: [
            size.get_length() if size.is_static else 1 for size in port.partial_shape
        ]
        for port in model.inputs
    }
    return {name: list(placement.data_shapes.get(name, shape)) for name, shape in smallest.items()}


def write_script(
    placement: Placement,
    devices: Sequence[str],
    partition: HeteroPartition,
    shapes: Mapping[str, Sequence[int]],
    in_flight: str,
    has_inputs: bool,
    library: str,
) -> str:
    """Return the source of a program that compiles the exported model with OpenVINO alone."""
    plugins = list_plugins(tuple(partition.devices.values()))
    properties = collect_properties(partition.devices)
    parts = scripts.SUBMODELS if len(partition.devices) > 1 else 1
    return scripts.MODEL.format(
        about=quote(f"Compile {safe_name(placement.model)} on {', '.join(devices)} as planned."),
        register=(scripts.REGISTER.format(plugins=plugins) if plugins else "")
        + (scripts.EXTENSION.format(library=quote(library)) if library else ""),
        shapes=shapes,
        inputs=scripts.OWN_INPUTS if has_inputs else None,
        in_flight=in_flight,
        key=KEY,
        parts=parts,
        target=quote(name_target(partition.devices)),
        properties=indent(pformat(properties, sort_dicts=False), "        "),
    )


def quote(text: str) -> str:
    """Quote a text as a literal: names come from foreign files and must not become code."""
    return json.dumps(text, ensure_ascii=False)
