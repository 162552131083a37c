"""The studies that come with the package."""

from __future__ import annotations

from pathlib import Path

from placement_gym.errors import unknown_name
from placement_gym.files import is_path

STUDIES = Path(__file__).parent.parent / "studies"


def find_study(study: str | Path) -> Path:
    """The YAML file of a study, given as a path or as the name of one in the package.

    Raises:
        UserError: It is neither; the message lists the names.
    """
    path = Path(study)
    if is_path(path) and not path.is_dir():
        return path
    shipped = {file.stem: file for file in STUDIES.glob("*.yaml")}
    name = str(study).removeprefix("studies/").removesuffix(".yaml")  # as 0.1.0 named them
    if name not in shipped:
        raise unknown_name("a study that is not a file", str(study), shipped)
    return shipped[name]
