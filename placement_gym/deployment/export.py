"""Export a placement for programs that use OpenVINO alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from pprint import pformat
from shutil import copyfile
from string import Template
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
    check_integer,
    make_output_folder,
    replace_files,
    safe_name,
    warn_user,
    write_json,
    write_text,
)
from placement_gym.deployment.compile import cut, split_placement
from placement_gym.graph import OpGraph, submodel_devices
from placement_gym.hardware import list_plugins
from placement_gym.models import (
    InputsArgument,
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
"""Path of the affinities, as JSON, in the model's runtime info: files drop that of nodes."""
MODEL, WEIGHTS, AFFINITIES, SCRIPT = "model.xml", "model.bin", "affinities.json", "run.py"
INPUTS = "inputs.npz"
OWN_INPUTS = 'Path(__file__).with_name("inputs.npz")'
SUBMODELS = 'compiled.get_property("HETERO_NUMBER_OF_SUBMODELS")'
POOL = "from concurrent.futures import ThreadPoolExecutor\n"


def export_placement(  # noqa: D417  arguments as for gym.make share a line
    placement: Placement | str | Path,
    out: str | Path,
    model: Any = None,
    shapes: Shapes | None = None,
    split: str = "auto",
    requests: int | None = None,
    inputs: InputsArgument | None = None,
    extension: str | Path | None = None,
) -> list[Path]:
    """Export a model and its placement for programs without this package.

    ``model.xml`` (and ``.bin``) is the model, cut for the placement, with unchanged weights; its
    runtime info has the device of every node. ``run.py`` needs OpenVINO alone: import
    ``compile_model`` from it, or run it for a median latency. ``inputs.npz`` is the first sample of
    the user's inputs; without it ``run.py`` uses zeros. ``affinities.json`` maps nodes to devices
    for OpenVINO's ``hello_affinity`` and ``benchmark_app -affinity``; it names no aliases of
    devices, so HETERO may cut the model into more parts. The library of an extension is copied. For
    a union each model gets a folder with these files; ``run.py`` next to them runs all at once.

    Args:
        placement: A placement or its file.
        out: The folder; files of these names in it are replaced.
        model: The model that the placement was made for, as for ``gym.make``; None means the
            built-in model that it names.
        shapes, inputs, extension: As for ``gym.make``.
        split: See ``placement_gym.compile_model``.
        requests: Requests in flight: ``run.py`` then also has ``make_queue``, which returns an
            ``ov.AsyncInferQueue`` of this size; for a model with state ``make_requests``, which
            returns a request with its own state for each thread.

    Returns:
        The model, the script, the affinities, and the library of an extension.

    Raises:
        PlacementMismatchError: The placement was made for another model.
        UserError: ``out`` cannot be written, or the model cannot be loaded.
    """
    if requests is not None:
        check_integer("requests", requests, 1)
    planned = placement if isinstance(placement, Placement) else Placement.load(placement)
    folder = make_output_folder(out)
    with model_of_placement(model):
        spec = replace(planned.spec.with_model(model, shapes, None), extension=extension)
        loaded = spec.load()
    if list_members(loaded):
        files = [
            file
            for name, (part, own) in split_placement(loaded, planned).items()
            for file in export_placement(
                own,
                folder / name,
                part,
                split=split,
                requests=requests,
                inputs=inputs_of(inputs, name),
                extension=extension,
            )
        ]
        return [write_union_script(planned, folder, loaded, requests or 2), *files]
    arrays = list_own_arrays(planned, loaded, folder, inputs)
    graph, partition = cut(loaded, planned, split)
    set_affinities(loaded, graph, partition)
    replace_control_characters(loaded)
    affinities = {
        node.get_friendly_name(): node.get_rt_info()["affinity"].astype(str)
        for node in loaded.get_ordered_ops()
    }
    loaded.set_rt_info(json.dumps(affinities), KEY)
    # Other tools do not know aliases of devices.
    names = name_devices(planned, graph, partition)
    library = Path(extension).name if extension else ""
    in_flight = "requests" if is_stateful(loaded) else "queue"
    devices = ", ".join(sorted(set(names.values())))
    script = make_script(
        f"Compile {safe_name(planned.model)} on {devices} as planned.",
        partition,
        list_shapes(loaded, planned),
        fill_program(in_flight, requests=requests) if requests else "",
        bool(arrays),
        library,
    )
    with replace_files(folder) as new_folder:
        save_model(loaded, new_folder / MODEL)
        if arrays:
            save_arrays(arrays, new_folder / INPUTS)
        write_json(
            new_folder / AFFINITIES, {node: names[device] for node, device in affinities.items()}
        )
        write_text(new_folder / SCRIPT, script)
        if extension:
            copyfile(extension, new_folder / library)
    written = (MODEL, WEIGHTS, SCRIPT, AFFINITIES, INPUTS if arrays else "", library)
    return [folder / name for name in written if name]


def list_own_arrays(
    placement: Placement, model: ov.Model, folder: Path, given: InputsArgument | None
) -> dict[str, NDArray[Any]]:
    """Return the user's inputs by name: the first inference of the first sample, if any.

    Types that NumPy lacks are stored as their bits. An export that would replace the given inputs
    is refused.
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


def write_union_script(placement: Placement, folder: Path, model: ov.Model, requests: int) -> Path:
    """Write the program that runs the exported models of a union together."""
    rates = {member.name: member.rate for member in list_members(model)}
    stateful = is_stateful(model)
    script = fill_program(
        "union",
        about=quote(f"Run the models {safe_name(placement.model)} at the same time, as planned."),
        pool=POOL if stateful else "",
        rates=pformat(rates, sort_dicts=False),
        requests=requests,
        serve=fill_program("union_threads" if stateful else "union_queues"),
    )
    write_text(folder / SCRIPT, script)
    return folder / SCRIPT


def export_phases(
    prefill: Placement,
    decode: Placement,
    out: str | Path,
    model: Any = None,
    shapes: Shapes | None = None,
    inputs: InputsArgument | None = None,
    extension: str | Path | None = None,
) -> list[Path]:
    """Export one placement for the prompt and one for tokens; see ``export_placement``.

    The folders ``prefill`` and ``decode`` are complete exports. ``Request`` of ``run.py`` next to
    them runs the prompt in the first and tokens in the second, and transfers the state.

    Returns:
        The script, and the files of both exports.
    """
    folder = make_output_folder(out)
    given: dict[str, Any] = {"inputs": inputs, "extension": extension}
    files = [
        *export_placement(prefill, folder / "prefill", model, shapes, **given),
        *export_placement(decode, folder / "decode", model, shapes, **given),
    ]
    about = f"Run {safe_name(prefill.model)}: the prompt as in prefill/, tokens as in decode/."
    write_text(folder / SCRIPT, fill_program("phases", about=quote(about)))
    return [folder / SCRIPT, *files]


def replace_control_characters(model: ov.Model) -> None:
    """Rename nodes whose names an XML file cannot contain."""
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


def name_devices(
    placement: Placement, graph: OpGraph, partition: HeteroPartition
) -> dict[str, str]:
    """Map the names in a partition, some of them aliases, to the placement's devices."""
    devices = submodel_devices(graph, placement.operator_devices(graph), partition.submodels)
    names = [placement.devices[device].name for device in devices.tolist()]
    return dict(zip(partition.targets, names, strict=True))


def list_shapes(model: ov.Model, placement: Placement) -> dict[str, list[int]]:
    """Return the shape of each input by name: as measured, or with 1 for dynamic dimensions."""
    shapes = {}
    for port in model.inputs:
        name = input_names(port)[0]
        smallest = [size.get_length() if size.is_static else 1 for size in port.partial_shape]
        shapes[name] = list(placement.data_shapes.get(name, smallest))
    return shapes


def make_script(
    about: str,
    partition: HeteroPartition,
    shapes: Mapping[str, Sequence[int]],
    in_flight: str,
    has_inputs: bool,
    library: str,
) -> str:
    """Make the source of a program that compiles the exported model with OpenVINO alone."""
    plugins = list_plugins(tuple(partition.devices.values()))
    properties = collect_properties(partition.devices)
    return fill_program(
        "model",
        about=quote(about),
        register=(fill_program("register", plugins=plugins) if plugins else "")
        + (f"    core.add_extension(path.with_name({quote(library)}))\n" if library else ""),
        shapes=shapes,
        inputs=OWN_INPUTS if has_inputs else None,
        in_flight=in_flight,
        key=KEY,
        parts=SUBMODELS if len(partition.devices) > 1 else 1,
        target=quote(name_target(partition.devices)),
        properties=indent(pformat(properties, sort_dicts=False), "        "),
    )


def fill_program(name: str, **values: object) -> str:
    """Fill in a template of the folder ``programs``: ``$name`` stands for a value."""
    file = resources.files("placement_gym.deployment").joinpath("programs", f"{name}.py.txt")
    return Template(file.read_text(encoding="utf-8")).substitute(values)


def quote(text: str) -> str:
    """Quote a text as a literal: names come from foreign files and must not become code."""
    return json.dumps(text, ensure_ascii=False)
