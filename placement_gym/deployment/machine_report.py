"""A report of what a machine's devices do with some models, to send to others."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from placement_gym.base.errors import EngineError, UserError
from placement_gym.base.files import check_output_file, write_text
from placement_gym.base.texts import make_printable
from placement_gym.deployment.check import check
from placement_gym.deployment.fidelity import fidelity
from placement_gym.deployment.granularity import DEFAULT_GRANULARITY
from placement_gym.deployment.plan import plan
from placement_gym.deployment.profile import profile
from placement_gym.hardware.device_requests import DevicesArgument, resolve_devices
from placement_gym.hardware.devices import usable_cores
from placement_gym.hardware.machine import load_plugin
from placement_gym.models.spec import ModelSpec
from placement_gym.version import VERSION

if TYPE_CHECKING:
    import openvino as ov

MODELS = ("resnet", "gpt", "mobilenet")
PLACEMENTS = 30
IDENTIFYING = ("DEVICE_UUID", "DEVICE_LUID", "CACHE_DIR", "CONFIG_FILE", "WEIGHTS_PATH")
"""Properties that tell one machine from another of its kind, or hold paths."""
PATHS = ("file", "files", "saved", "exported")
"""Keys of documents that say where something was written."""
Document = dict[str, Any]


def report_machine(
    file: str | Path,
    devices: DevicesArgument = None,
    models: Sequence[Any] = MODELS,
    placements: int = PLACEMENTS,
    quiet: bool = False,
) -> Document:
    """Check devices with some models, profile and plan the first one, and write one JSON file.

    A part that fails is an error in the report, and the others follow. The file names neither
    user nor host, nor a path.

    Args:
        file: What is written.
        devices: As for ``gym.make``.
        models: Of ``check``; the first one is also profiled, planned, and its fidelity measured.
        placements: Of ``fidelity``.
        quiet: Show no progress.

    Returns:
        ``versions``, ``system``, ``devices`` (each with its ``properties``), ``check`` (of each
        model), ``profile``, ``fidelity`` and ``plan``, each as its function returns it but without
        paths, or ``{"error": ...}``; ``seconds`` of each part; and ``wall_s``.

    Raises:
        UserError: The file cannot be written, or the machine does not have the devices.
    """
    import openvino as ov

    started, path, first = perf_counter(), check_output_file(file), models[0]
    core = ov.Core()
    specs = resolve_devices(devices, "measured", core)
    seconds: dict[str, float] = {}
    found: Document = {
        "versions": {"placement_gym": VERSION, "openvino": ov.__version__},
        "system": {"kernel": f"{platform.system()} {platform.release()}", "cores": usable_cores()},
        "devices": [
            {**spec.to_json(), "properties": read_properties(core, spec.plugin or spec.name)}
            for spec in specs
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        parts: dict[str, Callable[[], Document]] = {
            f"check {Path(str(model)).name}": partial(check, model, specs, folder, quiet=quiet)
            for model in models
        }
        whole = ModelSpec(first, DEFAULT_GRANULARITY)
        parts |= {
            "profile": partial(profile, whole, specs, folder, quiet=quiet),
            "fidelity": partial(
                fidelity, first, specs, n_placements=placements, out=folder, quiet=quiet
            ),
            "plan": partial(plan, first, specs, out=folder, quiet=quiet),
        }
        for name, run in parts.items():
            begun = perf_counter()
            try:
                found[name] = leave_out_paths(run())
            except (UserError, EngineError) as error:
                found[name] = {"error": str(error)}
            seconds[name] = perf_counter() - begun
    found |= {"seconds": seconds, "wall_s": perf_counter() - started}
    write_text(path, hide_names(json.dumps(found, indent=1, default=str), folder) + "\n")
    return found


def read_properties(core: ov.Core, device: str) -> dict[str, str]:
    """The properties that a device reports, as text, without those that identify it."""
    found = {}
    for key in sorted(load_plugin(core, device)):
        if key in IDENTIFYING:
            continue
        try:
            found[key] = make_printable(str(core.get_property(device, key)))
        except (RuntimeError, TypeError):  # of a compiled model alone, or of no type in Python
            continue
    return found


def leave_out_paths(value: Any) -> Any:
    """A document without what says where something was written."""
    if isinstance(value, dict):
        return {key: leave_out_paths(one) for key, one in value.items() if key not in PATHS}
    return list(map(leave_out_paths, value)) if isinstance(value, list) else value


def hide_names(text: str, folder: str) -> str:
    """A text without this machine's folders and names, which errors of others may contain."""
    folders = (folder, str(Path.cwd()), str(Path.home()))
    for name in (*folders, platform.node(), os.environ.get("USER", "")):
        # A name as short as `dev` is part of other words, too.
        if len(name) > 4:
            text = text.replace(name, "HIDDEN")
    return text
