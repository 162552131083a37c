"""A plan for OpenVINO GenAI: the device and the compile properties of a pipeline's models.

GenAI reads and compiles model files itself, so that no affinities reach it: only plans for a single
device can be handed over, with the properties of the device, which a sweep may have found.
"""

from __future__ import annotations

from pathlib import Path

from placement_gym.base.errors import UserError
from placement_gym.base.files import make_output_folder, write_text
from placement_gym.base.json_file import write_json
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.problem.placement import Placement

ROLES = (
    "audio_encoder",
    "language_model",
    "multi_modal_projector",
    "resampler",
    "text_embeddings",
    "text_embeddings_per_layer",
    "vision_embeddings",
    "vision_embeddings_merger",
    "vision_embeddings_pos",
    "vision_projection",
)
"""Those of ``MODEL_PROPERTIES`` in OpenVINO GenAI 2026.4; others are refused by it."""
WHOLE = "pipeline"
"""The file of a model that is all of its pipeline."""
SCRIPT = "arguments.py"


def export_for_genai(placement: Placement | str | Path, out: str | Path) -> list[Path]:
    """Write the arguments of an OpenVINO GenAI pipeline that runs a model as planned.

    A model of several, as ``openvino_language_model.xml``, has a role, and ``ROLE.json``; any other
    is a pipeline by itself, ``pipeline.json``. Plans of all roles go to one folder, from which
    ``arguments.py`` reads the device and the properties of the whole pipeline.

    Args:
        placement: A placement or its file.
        out: The folder.

    Returns:
        The script, and the file of the model.

    Raises:
        UserError: The placement is a split, or ``out`` cannot be written.
    """
    loaded_placement = placement if isinstance(placement, Placement) else Placement.load(placement)
    device = find_device(loaded_placement)
    folder = make_output_folder(out)
    path = folder / f"{find_role(loaded_placement.model) or WHOLE}.json"
    values = {"device": device.plugin or device.name, "properties": device.compile_properties()}
    write_json(path, values)
    write_text(folder / SCRIPT, SOURCE)
    return [folder / SCRIPT, path]


def find_device(placement: Placement) -> DeviceSpec:
    """The device of a plan for one.

    Raises:
        UserError: It has several.
    """
    used = [device for device in placement.devices if device.name in set(placement.units.values())]
    if len(used) == 1:
        return used[0]
    raise UserError(
        f"the plan puts {placement.model!r} on {[spec.name for spec in used]}, and OpenVINO GenAI "
        "takes no affinities: run it by --to openvino in a loop of your own, or plan for one device"
    )


def find_role(model: str) -> str:
    """The role of a model by the name of its file; empty if it has none.

    ``"openvino_text_embeddings_model"`` is ``"text_embeddings"``.
    """
    name = model.removeprefix("openvino_")
    roles = (role for role in (name, name.removesuffix("_model")) if role in ROLES)
    return next(roles, "")


SOURCE = '''"""The arguments of an OpenVINO GenAI pipeline.

device, properties = read_arguments()
pipeline = openvino_genai.VLMPipeline(folder_of_models, device, **properties)
"""

import json
from pathlib import Path


def read_arguments(folder=Path(__file__).parent):
    models = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    devices = {model["device"] for model in models.values()}
    if len(devices) != 1:
        raise ValueError(f"a pipeline has one device, and its models were planned for {devices}")
    properties = models.pop("pipeline", {"properties": {}})["properties"]
    if models:
        roles = {role: model["properties"] for role, model in models.items()}
        properties["MODEL_PROPERTIES"] = roles
    return devices.pop(), properties


if __name__ == "__main__":
    print(*read_arguments())
'''
