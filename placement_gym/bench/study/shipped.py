"""The studies that come with the package."""

from __future__ import annotations

from pathlib import Path

from placement_gym.base.errors import UserError, suggest
from placement_gym.base.files import is_path, list_neighbours
from placement_gym.base.texts import join_words

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
    if (name := str(study)) not in shipped:
        near = suggest(name, shipped) or suggest(study, list_neighbours(str(study)))
        raise UserError(
            f"no study {str(study)!r:.200}: it is not a file, and those of the package are "
            f"{join_words(sorted(shipped))}{near}"
        )
    return shipped[name]
