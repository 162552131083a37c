"""Several models for programs that use OpenVINO alone: an export of each, and one script."""

from __future__ import annotations

from pathlib import Path
from pprint import pformat
from typing import TYPE_CHECKING

from placement_gym.base.files import safe_name, write_text
from placement_gym.deployment.export_scripts import UNION, UNION_QUEUES, UNION_THREADS
from placement_gym.deployment.several import split_placement
from placement_gym.models.members import list_members
from placement_gym.models.stateful import is_stateful
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
    requests: int | None,
) -> list[Path]:
    """Export each model of a union to a folder of its name; ``run.py`` next to them runs all.

    Returns:
        The script, and the files of all exports.
    """
    parts = split_placement(model, placement)
    files = [
        file
        for name, (part, part_placement) in parts.items()
        for file in export(part_placement, folder / name, part)
    ]
    rates = pformat({member.name: member.rate for member in list_members(model)}, sort_dicts=False)
    about = quote(f"Run {safe_name(placement.model)} at the same time, each model as planned.")
    serve = UNION_THREADS if is_stateful(model) else UNION_QUEUES
    script = UNION.format(about=about, rates=rates, requests=requests or 2, serve=serve)
    write_text(folder / SCRIPT, script)
    return [folder / SCRIPT, *files]
