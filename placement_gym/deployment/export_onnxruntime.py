"""Export a placement for ONNX Runtime.

ONNX Runtime reads the device of a node from its metadata; the session option
``session.layer_assignment_settings`` names the execution provider of each device.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from pprint import pformat
from typing import TYPE_CHECKING, Any

from placement_gym.base import (
    UserError,
    is_file,
    make_output_folder,
    replace_files,
    safe_name,
    write_json,
    write_text,
)
from placement_gym.deployment.export import (
    INPUTS,
    OWN_INPUTS,
    fill_program,
    list_own_arrays,
    quote,
)
from placement_gym.graph import extract_spec
from placement_gym.hardware import DeviceSpec
from placement_gym.models import (
    InputsArgument,
    Shapes,
    load_model,
    match_built_in,
    model_of_placement,
    save_arrays,
)
from placement_gym.problem import Placement

if TYPE_CHECKING:
    import onnx
    import openvino as ov

ANNOTATION = "layer_ann"
MODEL, WEIGHTS, SCRIPT, PLANNED = "model.onnx", "model.onnx.data", "run.py", "assignment.json"


def export_for_onnxruntime(  # noqa: D417  arguments as for gym.make share a line
    placement: Placement | str | Path,
    out: str | Path,
    model: Any = None,
    shapes: Shapes | None = None,
    inputs: InputsArgument | None = None,
) -> list[Path]:
    """Export an ONNX model and its placement for ONNX Runtime.

    ``model.onnx`` (with ``model.onnx.data``) is the model with the device of each node as metadata
    ``layer_ann``; ``assignment.json`` maps nodes to devices. ``run.py`` makes a session and
    compares the plan with the devices that it recorded. ``inputs.npz`` is the first sample of the
    user's inputs.

    Args:
        placement: A placement or its file.
        out: The folder; files of these names in it are replaced.
        model: The ``.onnx`` file that the placement was made for.
        shapes, inputs: As for ``gym.make``.

    Returns:
        The files.

    Raises:
        PlacementMismatchError: The placement was made for another model.
        UserError: The model is not an ONNX file, package ``onnx`` is missing, two GPUs or NPUs are
            used, or ``out`` cannot be written.
    """
    planned = placement if isinstance(placement, Placement) else Placement.load(placement)
    path = check_file(model)
    targets = name_providers(planned)
    onnx = import_onnx()
    with model_of_placement(model):
        loaded = load_model(path, shapes, planned.spec.inputs)
    devices = map_outputs(planned, loaded)
    annotated = onnx.load(path)
    assignment = annotate(annotated, devices)
    folder = make_output_folder(out)
    arrays = list_own_arrays(planned, loaded, folder, inputs)
    name = safe_name(planned.model)
    source = fill_program(
        "onnxruntime",
        about=quote(f"Run {name} by ONNX Runtime on {', '.join(targets)} as planned."),
        targets=pformat(targets, sort_dicts=False),
        inputs=OWN_INPUTS if arrays else None,
    )
    with replace_files(folder) as new_folder:
        if arrays:
            save_arrays(arrays, new_folder / INPUTS)
        onnx.save(annotated, new_folder / MODEL, save_as_external_data=True, location=WEIGHTS)
        has_weights = (new_folder / WEIGHTS).exists()
        if has_weights:  # onnx does not let other users read them
            (new_folder / WEIGHTS).chmod((new_folder / MODEL).stat().st_mode)
        write_json(new_folder / PLANNED, assignment)
        write_text(new_folder / SCRIPT, source)
    if not has_weights:
        (folder / WEIGHTS).unlink(missing_ok=True)  # of an earlier model
    written = (MODEL, WEIGHTS if has_weights else "", SCRIPT, PLANNED, INPUTS if arrays else "")
    return [folder / name for name in written if name]


def check_file(model: Any) -> Path:
    """Return the path of an ONNX file, or raise ``UserError``."""
    is_path = isinstance(model, (str, Path)) and not match_built_in(model)
    if is_path and Path(model).suffix == ".onnx" and is_file(model):
        return Path(model)
    raise UserError(
        f"ONNX Runtime runs ONNX files, not {model!r:.200}: plan an ONNX file, as in "
        "`plan --model my_model.onnx`, and name it here too (--model my_model.onnx)"
    )


def import_onnx() -> Any:
    """Import package ``onnx``, or raise ``UserError`` if it is not installed."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise UserError(
            "the export needs the package onnx: pip install 'placement-gym[onnxruntime]'"
        ) from error
    return onnx


def name_providers(placement: Placement) -> dict[str, str]:
    """Map the annotation of each used device to ONNX Runtime's name; refuse two GPUs or NPUs."""
    used = [device for device in placement.devices if device.name in set(placement.units.values())]
    targets = {safe_name(spec.name): name_provider(spec) for spec in used}
    accelerators = [spec.name for spec in used if spec.kind != "CPU"]
    if len({other.split(".")[0] for other in accelerators}) < len(accelerators):
        raise UserError(
            "a session of ONNX Runtime has one execution provider of each type, and "
            f"{accelerators} need two: plan with one of them"
        )
    return targets


def name_provider(device: DeviceSpec) -> str:
    """Return ONNX Runtime's name of a device: ``"gpu:1"`` is OpenVINO's ``"GPU.1"``."""
    if device.kind == "CPU":  # "cpu" also means other providers that compute on the CPU
        return "CPUExecutionProvider"
    number = device.name.partition(".")[2]
    return device.kind.lower() + (f":{number}" if device.kind == "GPU" and number else "")


def map_outputs(placement: Placement, model: ov.Model) -> dict[str, str]:
    """Map ONNX outputs to devices: OpenVINO keeps the names of outputs on its tensors."""
    fitted = placement.fit(extract_spec(model, placement.spec))
    of_node = {
        node: safe_name(fitted.units[unit])
        for unit, nodes in fitted.members.items()
        for node in nodes
    }
    return {
        name: of_node[node.get_friendly_name()]
        for node in model.get_ordered_ops()
        if node.get_friendly_name() in of_node
        for output in node.outputs()
        for name in output.get_names()
    }


def annotate(model: onnx.ModelProto, devices: dict[str, str]) -> dict[str, str]:
    """Write the device of each node into a model, in place; return node -> device.

    A node that OpenVINO folded or fused gets the device of its reader or its input. Nodes without
    a name get one.
    """
    nodes = list(model.graph.node)  # in topological order, as ONNX prescribes
    device_of: dict[str, str] = dict(devices)
    for node in reversed(nodes):
        spread(device_of, node.output, node.input)
    for node in nodes:
        spread(device_of, node.input, node.output)
    model.ir_version = max(model.ir_version, 10)  # the first whose nodes have metadata
    assignment: dict[str, str] = {}
    for node in nodes:
        device = next((device_of[name] for name in node.output if name in device_of), None)
        if device is None:
            continue
        if not node.name or node.name in assignment:
            node.name = f"{node.name or node.op_type}/{node.output[0]}"
        for earlier in [entry for entry in node.metadata_props if entry.key == ANNOTATION]:
            node.metadata_props.remove(earlier)
        node.metadata_props.add(key=ANNOTATION, value=device)
        assignment[node.name] = device
    return assignment


def spread(device_of: dict[str, str], near: Iterable[str], far: Iterable[str]) -> None:
    """Give far tensors without a device the first known device of near ones, in place."""
    device = next((device_of[name] for name in near if name in device_of), None)
    if device is not None:
        for name in far:
            device_of.setdefault(name, device)
