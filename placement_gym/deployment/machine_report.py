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
from typing import TYPE_CHECKING, Any, NamedTuple

from placement_gym.base.errors import EngineError, UserError, raise_interrupt
from placement_gym.base.files import check_output_file, write_text
from placement_gym.base.texts import make_printable
from placement_gym.base.time_limit import time_limit
from placement_gym.deployment.check import check
from placement_gym.deployment.fidelity import fidelity
from placement_gym.deployment.options import ProblemOptions
from placement_gym.deployment.plan import plan
from placement_gym.deployment.profile import profile
from placement_gym.hardware.device_requests import DevicesArgument, resolve_devices
from placement_gym.hardware.devices import DeviceSpec, usable_cores
from placement_gym.hardware.machine import load_plugin
from placement_gym.version import VERSION

if TYPE_CHECKING:
    import openvino as ov

MODELS = ("resnet", "gpt", "mobilenet")
PLACEMENTS = 30
BUDGET_S = 580.0
"""Seconds of all parts: ours, below ten minutes; what a part leaves is for those that follow."""
IDENTIFYING = ("DEVICE_UUID", "DEVICE_LUID", "CACHE_DIR", "CONFIG_FILE", "WEIGHTS_PATH")
"""Properties that tell one machine from another of its kind, or hold paths."""
PATHS = ("file", "files", "saved", "exported")
"""Keys of documents that say where something was written."""
MEASURING_SHARE = 0.9
"""Share of its time in which fidelity measures placements: ours; the rest is for comparing them."""
Document = dict[str, Any]


class Part(NamedTuple):
    """A part of the report.

    Attributes:
        name: Of the part.
        share: Its share of the time that is left, relative to those of the parts that follow.
        run: Takes the seconds that it has; returns its document.
        needs: Name of the part without which it is left out.
    """

    name: str
    share: float
    run: Callable[[float], Document]
    needs: str = ""


def report_machine(
    file: str | Path,
    devices: DevicesArgument = None,
    models: Sequence[Any] = MODELS,
    placements: int = PLACEMENTS,
    quiet: bool = False,
    budget_s: float = BUDGET_S,
) -> Document:
    """Check devices with some models, plan and profile the first one, and write one JSON file.

    A part that fails, or takes more than its share of the time, is an error in the report, and the
    others follow. The file is written after each part, so that it holds what an interrupt leaves.
    It names neither user nor host, nor a path.

    Args:
        file: What is written.
        devices: As for ``gym.make``.
        models: Of ``check``; the first one is also planned, profiled, and its fidelity measured.
        placements: Of ``fidelity``, or as many as its time allows.
        quiet: Show no progress.
        budget_s: Seconds for all parts. In a thread other than the main one there is no limit.

    Returns:
        ``versions``, ``system``, ``devices`` (each with its ``properties``), ``check`` (of each
        model), ``plan``, ``profile`` and ``fidelity``, each as its function returns it but without
        paths, or ``{"error": ...}``; ``seconds`` of each part; and ``wall_s``.

    Raises:
        UserError: The file cannot be written, or the machine does not have the devices.
        KeyboardInterrupt: As the user interrupted; the message says what the file holds.
    """
    import openvino as ov

    start_s, path = perf_counter(), check_output_file(file)
    core = ov.Core()
    specs = resolve_devices(devices, "measured", core)
    document: Document = {
        "versions": {"placement_gym": VERSION, "openvino": ov.__version__},
        "system": {"kernel": f"{platform.system()} {platform.release()}", "cores": usable_cores()},
        "devices": [
            {**spec.to_json(), "properties": read_properties(core, spec.plugin or spec.name)}
            for spec in specs
        ],
        "seconds": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        write_report(path, document, folder)
        parts = list_parts(specs, models, placements, folder, quiet)
        for number, part in enumerate(parts):
            part_start_s = perf_counter()
            left_s = budget_s - (part_start_s - start_s)
            limit_s = left_s * part.share / sum(part_left.share for part_left in parts[number:])
            if not quiet:
                announce(f"{number + 1} of {len(parts)}: {part.name}, at most {limit_s:.0f} s")
            try:
                document[part.name] = run_part(part, limit_s, document)
            except KeyboardInterrupt:
                done = ", ".join(document["seconds"]) or "what the devices report, and no part"
                raise KeyboardInterrupt(f"{path} has {done}") from None
            document["seconds"][part.name] = perf_counter() - part_start_s
            document["wall_s"] = perf_counter() - start_s
            write_report(path, document, folder)
    return document


def list_parts(
    specs: Sequence[DeviceSpec], models: Sequence[Any], placements: int, folder: str, quiet: bool
) -> list[Part]:
    """The parts in their order, those that take longest last."""
    first, spec = models[0], ProblemOptions().make_spec(models[0])
    quietly: dict[str, Any] = {"out": folder, "quiet": quiet}

    def check_one(model: Any, _: float) -> Document:
        return check(model, specs, **quietly)

    def compare(limit_s: float) -> Document:
        return fidelity(
            first, specs, n_placements=placements, limit_s=MEASURING_SHARE * limit_s, **quietly
        )

    return [
        *(
            Part(f"check {Path(str(model)).name}", 1.0, partial(check_one, model))
            for model in models
        ),
        Part("plan", 2.0, lambda _: plan(first, specs, **quietly)),
        # There is no fidelity without a profile, and with less time it measures less.
        Part("profile", 3.0, lambda _: profile(spec, specs, **quietly)),
        Part("fidelity", 1.0, compare, needs="profile"),
    ]


def announce(text: str) -> None:
    """Say on standard error which part begins."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(f"Part {text}", style="bold", markup=False)


def run_part(part: Part, limit_s: float, report: Document) -> Document:
    """Run a part, and return its result without paths, or the reason why it has none.

    Raises:
        KeyboardInterrupt: Of the user.
    """
    if "error" in report.get(part.needs, {}):
        return {"error": f"left out: it needs the {part.needs}"}
    with time_limit(limit_s) as limit:
        try:
            document: Document = leave_out_paths(part.run(limit_s))
            return document
        except (UserError, EngineError) as error:
            return {"error": str(error)}
        except (KeyboardInterrupt, SystemError, ImportError) as error:
            if not limit.passed:
                raise_interrupt(error)
                raise
    place = f" at {limit.stopped_at!r}" if limit.stopped_at else ""
    return {"error": f"stopped{place}: its share of the time was {limit_s:.0f} s"}


def write_report(path: Path, document: Document, folder: str) -> None:
    """Write what there is so far, without this machine's names."""
    text = json.dumps(document, indent=1, default=str)
    write_text(path, hide_names(text, folder) + "\n")


def read_properties(core: ov.Core, device: str) -> dict[str, str]:
    """The properties that a device reports, as text, without those that identify it."""
    properties = {}
    for key in sorted(load_plugin(core, device)):
        if key in IDENTIFYING:
            continue
        try:
            properties[key] = make_printable(str(core.get_property(device, key)))
        except (RuntimeError, TypeError):  # of a compiled model alone, or of no type in Python
            continue
    return properties


def leave_out_paths(value: Any) -> Any:
    """A document without what says where something was written."""
    if isinstance(value, dict):
        return {key: leave_out_paths(entry) for key, entry in value.items() if key not in PATHS}
    return list(map(leave_out_paths, value)) if isinstance(value, list) else value


def hide_names(text: str, folder: str) -> str:
    """A text without this machine's folders and names, which errors of others may contain."""
    folders = (folder, str(Path.cwd()), str(Path.home()))
    for name in (*folders, platform.node(), os.environ.get("USER", "")):
        # A name as short as `dev` is part of other words, too.
        if len(name) > 4:
            text = text.replace(name, "HIDDEN")
    return text
