"""Several models for programs that use OpenVINO alone: an export of each, and one script."""

from __future__ import annotations

from pathlib import Path
from pprint import pformat
from typing import TYPE_CHECKING

from placement_gym.base.files import safe_name, write_text
from placement_gym.deployment.several import split_placement
from placement_gym.models.union import list_members
from placement_gym.problem.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable

    import openvino as ov

SCRIPT = "run.py"


def export_union(
    export: Callable[[Placement, Path, ov.Model], list[Path]],
    placement: Placement,
    folder: Path,
    model: ov.Model,
    quote: Callable[[str], str],
) -> list[Path]:
    """Export each model of a union to a folder of its name; ``run.py`` next to them runs all.

    Args:
        export: Exports one model.
        placement: Made for the union.
        folder: The folder.
        model: The union.
        quote: Makes a text a literal.

    Returns:
        The script, and the files of all exports.
    """
    parts = split_placement(model, placement)
    files = [
        file for name, (part, own) in parts.items() for file in export(own, folder / name, part)
    ]
    rates = pformat({member.name: member.rate for member in list_members(model)}, sort_dicts=False)
    about = quote(f"Run {safe_name(placement.model)} at the same time, each model as planned.")
    write_text(folder / SCRIPT, SOURCE.format(about=about, rates=rates))
    return [folder / SCRIPT, *files]


SOURCE = """{about}
import runpy
import threading
import time
from pathlib import Path

import numpy as np
import openvino as ov

RATES = {rates}
ROUNDS = 20


def compile_models(core: ov.Core, folder: Path = Path(__file__).parent):
    compiled = {{}}
    for name in RATES:
        script = runpy.run_path(str(folder / name / "run.py"))
        compiled[name] = script["compile_model"](core, folder / name / "model.xml")
    return compiled


def make_zeros(compiled: ov.CompiledModel):
    return [
        np.zeros(
            [size.get_length() if size.is_static else 1 for size in port.partial_shape],
            port.element_type.to_dtype(),
        )
        for port in compiled.inputs
    ]


def serve(compiled: ov.CompiledModel, inferences: int, latencies_ms: list):
    request, inputs = compiled.create_infer_request(), make_zeros(compiled)
    for _ in range(inferences):
        request.reset_state()
        started = time.perf_counter()
        request.infer(inputs)
        latencies_ms.append(1e3 * (time.perf_counter() - started))


if __name__ == "__main__":
    models = compile_models(ov.Core())
    times = {{name: [] for name in models}}
    threads = [
        threading.Thread(target=serve, args=(models[name], ROUNDS * rate, times[name]))
        for name, rate in RATES.items()
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    for name, latencies_ms in times.items():
        per_s, median_ms = len(latencies_ms) / seconds, float(np.median(latencies_ms))
        print(f"{{name}}: {{per_s:.1f}} a second, median {{median_ms:.1f}} ms")
"""
